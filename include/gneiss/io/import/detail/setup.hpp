// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <system_error>
#include <vector>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/import/detail/relations.hpp>
#include <gneiss/io/import/detail/source_plan.hpp>
#include <gneiss/io/import/detail/table_choice.hpp>
#include <gneiss/io/import/layout.hpp>
#include <gneiss/io/import/node_inputs.hpp>
#include <gneiss/io/import/options.hpp>
#include <gneiss/storage/detail/retry_interrupted.hpp>
#include <gneiss/storage/edge/bucket_builder.hpp>
#include <gneiss/storage/io/plain_file.hpp>

// Preparation: options are checked, sources opened once, the kind of ids chosen, and all of it summarized in the
// fingerprint by which a journal is recognized.
namespace gneiss::importing {

/// Minimum memory of an import [bytes].
inline constexpr std::uint64_t least_memory = std::uint64_t{1} << 20;

/// Throws errc::already_exists if the dataset exists and may not be replaced.
inline void check_absent(const import_options& options) {
    std::error_code failed;
    if (std::filesystem::exists(options.out, failed) && !options.force)
        throw error(errc::already_exists, "exists already: choose another name or allow replacing it (force)",
            {.path = options.out});
}

/// Throws errc::invalid_argument for contradictory options, errc::already_exists, over_budget.
inline void check_options(const import_options& options) {
    if (options.out.empty()) throw error(errc::invalid_argument, "no name for the dataset to make");
    if (options.memory < least_memory)
        throw over_budget(options.memory, {{"least buffers of an import", least_memory}});
    if (const std::uint64_t table = bucket_builder<>::table_bytes(options.partitions); table > options.memory / 4)
        throw over_budget(options.memory,
            {{"sorting", options.memory / 4 * 3},
                {"the table of " + std::to_string(options.partitions) + "² buckets", table}});
    check_absent(options);
    if (options.fractions) {
        for (const import_source& source : options.sources)
            if (source.split != edge_split::train)
                throw error(errc::invalid_argument, "fractions and given valid or test edges exclude each other");
        const auto& f = *options.fractions;
        if (!(f[0] >= 0 && f[1] >= 0 && f[2] >= 0) || std::abs(f[0] + f[1] + f[2] - 1) > 1e-9)
            throw error(errc::invalid_argument, "fractions are three nonnegative numbers that sum to 1");
    }
}

/// Returns the options with `out` without trailing slashes and a directory replaced by its files. Throws as
/// check_options and resolve_directory.
[[nodiscard]] inline import_options resolved_options(import_options options) {
    check_options(options);
    while (!options.out.has_filename() && options.out.has_parent_path()) options.out = options.out.parent_path();
    resolve_directory(options);
    if (options.sources.empty()) throw error(errc::invalid_argument, "no source to import");
    return options;
}

/// Opens a pipe or terminal for reading, without waiting for a writer.
class pipe_reader {
public:
    explicit pipe_reader(const std::filesystem::path& path)
        : path_(path),
          fd_(gneiss::detail::retry_interrupted(
              [&] { return ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); })) {
        if (fd_ < 0) throw io_error(errno, "open", {.path = path});
        struct ::stat status{};
        if (::fstat(fd_, &status) == 0 && (S_ISFIFO(status.st_mode) || ::isatty(fd_) == 1)) return;
        ::close(fd_);
        throw error(errc::unsupported, "is neither a file nor a pipe", {.path = path}); // devices may never end
    }
    pipe_reader(const pipe_reader&) = delete;
    pipe_reader& operator=(const pipe_reader&) = delete;
    ~pipe_reader() { ::close(fd_); }

    /// Waits for data and reads some; returns the bytes read, 0 at the end. Throws errc::canceled at a stop, at most
    /// 0.1 s after it; errc::unsupported if no process opens a FIFO for writing within 10 s.
    [[nodiscard]] std::size_t read_some(std::span<std::byte> to, const std::stop_token& stop) {
        for (int lonely = 0; lonely < 100;) {
            if (stop.stop_requested()) throw error(errc::canceled, "interrupted while it was read", {.path = path_});
            ::pollfd waiting{.fd = fd_, .events = POLLIN, .revents = 0};
            const int events = ::poll(&waiting, 1, 100);
            const ::ssize_t got = events < 0 ? -1 : ::read(fd_, to.data(), to.size());
            if (got > 0 || (got == 0 && events > 0)) return static_cast<std::size_t>(got);
            if (got == 0) ++lonely; // no process has the other end open
            if (got < 0 && errno != EINTR && errno != EAGAIN) throw io_error(errno, "read", {.path = path_});
        }
        throw error(errc::unsupported, "is a pipe that no process writes to", {.path = path_});
    }

private:
    std::filesystem::path path_;
    int fd_;
};

/// Copies the sources that can be read only once, such as /dev/stdin, to `copies`-N, and makes `options` read these
/// files under the names of the sources.
inline void copy_pipes(import_options& options, const std::filesystem::path& copies) {
    std::size_t number = 0;
    for (import_source& source : options.sources) {
        std::error_code failed;
        const auto kind = std::filesystem::status(source.path, failed).type();
        if (source.open || source.compute ||
            (kind != std::filesystem::file_type::fifo && kind != std::filesystem::file_type::character))
            continue;
        auto copy = copies;
        copy += "-" + std::to_string(number++);
        pipe_reader from(source.path);
        plain_file to = plain_file::create(copy);
        std::uint64_t bytes = 0;
        std::vector<std::byte> block(std::size_t{256} << 10);
        for (;;) {
            const auto some = std::span<const std::byte>(block).first(from.read_some(block, options.stop));
            if (some.empty()) break;
            to.write_at(bytes, some);
            bytes += some.size();
        }
        to.close();
        if (bytes == 0) throw error(errc::invalid_format, "is empty", {.path = source.path});
        std::uint64_t sum = 0; // of blocks of one size, however the bytes arrived
        const plain_file whole = plain_file::open(copy);
        for (std::uint64_t at = 0; at < bytes; at += block.size()) {
            const auto some =
                std::span(block).first(static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), bytes - at)));
            whole.read_at(at, some);
            sum = checksum(std::span<const std::byte>(some), sum);
        }
        source.fingerprint = std::to_string(bytes) + "-" + std::to_string(sum);
        source.bytes = bytes;
        source.open = [copy, name = source.path] { return std::make_unique<file_source>(copy, name); };
    }
}

/// Plans each source. Copies pipes to `pipes`-N and unpacks archives into `unpacked` first, and makes `options` name
/// them.
[[nodiscard]] inline std::vector<planned_source> plan_sources(
    import_options& options, const std::filesystem::path& unpacked, const std::filesystem::path& pipes) {
    copy_pipes(options, pipes);
    check_node_attributes(options.node_attributes);
    unpack_archives(options, unpacked);
    if (options.task == dataset_task::node && !options.node_attributes.has_labels())
        throw error(errc::invalid_argument, "a node task needs labels");
    options.node_attributes.nodes = declared_nodes(options.node_attributes);
    check_split(options.node_attributes);
    std::vector<planned_source> sources;
    for (const import_source& source : options.sources) sources.push_back(plan_source(source, options));
    if (options.bipartite) { // one name for all sources
        const std::string prefix = std::ranges::any_of(sources, &planned_source::matrix) ? ""
            : sources[0].tail_prefix.empty()                                             ? "tail:"
                                                                                         : sources[0].tail_prefix;
        for (planned_source& source : sources) source.tail_prefix = prefix;
    }
    check_tables(options, sources);
    return sources;
}

/// Kind of the ids of an import: the same for all sources.
struct import_ids {
    bool integer = false;                          ///< ids are integers, not names
    relation_kind relations = relation_kind::none; ///< kind of relations
};

/// Throws errc::invalid_argument unless tails can be kept apart from heads of the same id: by name, or by the numbers
/// of a matrix, which other sources then have.
inline void check_bipartite(const import_options& options, const std::vector<planned_source>& sources, bool integer) {
    if (std::ranges::any_of(sources, &planned_source::matrix)) return;
    for (const planned_source& s : sources) {
        if (s.format == edge_format::metis)
            throw error(errc::invalid_argument, "--bipartite: METIS files link the same nodes: import without it");
        if (integer)
            throw error(errc::invalid_argument,
                std::string(
                    "--bipartite keeps heads and tails of text and arrays apart by names: import with --ids string") +
                    (options.names_nodes() ? ", without a table of entities" : "") +
                    (numbers_nodes(options.node_attributes) ? ", and with node attributes in text, by name" : ""));
    }
}

/// Throws errc::invalid_argument and errc::invalid_format for sources and tables that do not match.
[[nodiscard]] inline import_ids choose_ids(const import_options& options, const std::vector<planned_source>& sources) {
    const bool declared = std::all_of(sources.begin(), sources.end(), [](const planned_source& s) {
        return s.format == edge_format::npy || s.format == edge_format::mtx || s.format == edge_format::metis;
    });
    const bool numbered_nodes = numbers_nodes(options.node_attributes);
    const bool integer = options.ids == id_kind::integer ||
        (options.ids == id_kind::automatic && (declared || numbered_nodes || options.names_nodes()));
    if (!integer && numbered_nodes)
        throw error(errc::invalid_argument,
            "arrays of features, labels or splits go by integer ids (or a table of entities), not by names");
    for (const planned_source& s : sources)
        if (!integer && ((s.source.compute && !s.source.transposed) || s.format == edge_format::metis))
            throw error(errc::invalid_argument, "the ids of this format are integers", {.path = s.source.path});
    if (options.bipartite) check_bipartite(options, sources, integer);
    for (const planned_source& s : sources)
        if (!integer && s.destination_shift != 0) // row 7 and column 7 are two nodes
            throw error(errc::invalid_argument, "the ids of a bipartite matrix are integers", {.path = s.source.path});
    if (!options.entities.empty() && !integer)
        throw error(errc::invalid_argument, "a table of names needs integer ids", {.path = options.entities});
    const bool triples = sources[0].text.relation.has_value();
    for (const planned_source& s : sources)
        if (s.text.relation.has_value() != triples)
            throw error(errc::invalid_format,
                triples ? "has no relations, the first source has" : "has relations, the first source has none",
                {.path = s.source.path});
    const bool numbered =
        std::all_of(sources.begin(), sources.end(), [](const planned_source& s) { return s.integer_relation; });
    const relation_kind relations = !triples                  ? relation_kind::none
        : numbered && (integer || !options.relations.empty()) ? relation_kind::integers
                                                              : relation_kind::names;
    for (const planned_source& s : sources)
        if (integer && relations == relation_kind::names && (s.array || s.source.compute))
            throw error(
                errc::invalid_format, "has relations by number, another source by name", {.path = s.source.path});
    if (!options.relations.empty() && relations != relation_kind::integers)
        throw error(
            errc::invalid_argument, "a table of relation names needs integer relations", {.path = options.relations});
    return {integer, relations};
}

/// Returns a hash of everything that changes the result or the files of the phases.
[[nodiscard]] inline std::uint64_t import_fingerprint(
    const import_options& options, const std::vector<planned_source>& sources, const import_ids& ids) {
    std::string text = "import 1";
    const auto add = [&](const auto& value) {
        if constexpr (requires { std::to_string(value); })
            text += "|" + std::to_string(value);
        else
            text += "|" + std::string(value);
    };
    const auto add_file = [&](const std::filesystem::path& path) {
        std::error_code failed;
        add(std::filesystem::absolute(path, failed).string());
        add(std::filesystem::file_size(path, failed));
        add(std::filesystem::last_write_time(path, failed).time_since_epoch().count());
    };
    for (const planned_source& s : sources) {
        if (s.source.open || (s.source.compute && !s.source.transposed))
            add(s.source.path.string());
        else
            add_file(s.source.path);
        add(s.source.fingerprint);
        add(s.tail_prefix);
        for (const std::size_t value : {static_cast<std::size_t>(s.source.split), static_cast<std::size_t>(s.format),
                 static_cast<std::size_t>(static_cast<unsigned char>(s.text.delimiter)),
                 static_cast<std::size_t>(static_cast<unsigned char>(s.text.comment)),
                 static_cast<std::size_t>(s.text.hash_comments), s.text.fields, s.text.source, s.text.destination,
                 s.text.relation.value_or(99), static_cast<std::size_t>(s.text.skip_lines)})
            add(value);
    }
    for (const auto& table : {options.entities, options.relations})
        if (!table.empty()) add_file(table);
    for (const auto& file : files_of(options.node_attributes)) add_file(file);
    add(fingerprint_of(options.node_attributes));
    add(std::uint64_t{options.fractions.has_value()}); // else those of nodes and of edges would read alike
    if (options.fractions)
        for (const double f : *options.fractions) add(std::bit_cast<std::uint64_t>(f));
    for (const std::uint64_t value :
        {std::uint64_t{ids.integer}, static_cast<std::uint64_t>(ids.relations), std::uint64_t{options.undirected},
            std::uint64_t{options.unseen_to_train}, std::uint64_t{options.deduplicate},
            std::uint64_t{options.bipartite}, options.skip_bad, options.seed, std::uint64_t{options.partitions}})
        add(value);
    return checksum(text);
}

} // namespace gneiss::importing
