#pragma once

#include <gneiss/core/random.hpp>
#include <gneiss/storage/engine/file.hpp>
#include <gneiss/storage/feature/row_source.hpp>
#include <gneiss/storage/io/io_queue.hpp>

#include "storage/support.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

namespace storage_test {

/// A file of rows of random bytes, and its contents.
struct rows_file {
    gneiss::stored_rows stored;
    std::vector<std::byte> bytes; // the whole file

    /// Written by the engine, so that the engine finds it.
    rows_file(const gneiss::engine_factory& engines, const std::filesystem::path& path, std::uint64_t rows,
        std::size_t row_bytes, std::uint64_t offset = 0)
        : stored{path, offset, rows, row_bytes},
          bytes(offset + rows * row_bytes) {
        const gneiss::random_key key(row_bytes, gneiss::random_domain::user);
        for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(key[i]);
        gneiss::any_engine engine = engines();
        gneiss::file to(engine, path, {.write = true, .create = true, .truncate = true});
        gneiss::io_queue queue(engine);
        queue.write(to, 0, bytes);
        queue.drain();
    }

    [[nodiscard]] bool holds(gneiss::node_id row, const std::byte* there) const {
        return std::memcmp(bytes.data() + stored.offset_of(row), there, stored.row_bytes) == 0;
    }
};

/// Returns random rows, some of them repeated.
inline std::vector<gneiss::node_id> some_rows(std::size_t count, std::uint64_t rows, std::uint64_t seed) {
    const gneiss::random_key key(seed, gneiss::random_domain::user);
    std::vector<gneiss::node_id> ids(count);
    for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<gneiss::node_id>(gneiss::below(key[i], rows));
    return ids;
}

/// Memory for gathered rows: wider than the rows, in shuffled order, with guard bytes elsewhere.
class gathered_rows {
public:
    gathered_rows(std::size_t count, std::size_t row_bytes, std::uint64_t seed = 0)
        : row_bytes_(row_bytes),
          stride_(row_bytes + 5),
          positions_(count),
          memory_(count * stride_, mark) {
        std::iota(positions_.begin(), positions_.end(), 0U);
        gneiss::shuffle(positions_, gneiss::random_key(seed, gneiss::random_domain::user));
    }
    [[nodiscard]] gneiss::gather_target target() noexcept { return {memory_.data(), stride_, positions_}; }

    /// True if the i-th row equals row ids[i] of the file for all i, and nothing else was written.
    [[nodiscard]] bool equal(const rows_file& file, std::span<const gneiss::node_id> ids) {
        const gneiss::gather_target to = target();
        for (std::size_t i = 0; i < ids.size(); ++i)
            if (!file.holds(ids[i], to.row(i)) ||
                std::any_of(to.row(i) + row_bytes_, to.row(i) + stride_, [](std::byte b) { return b != mark; }))
                return false;
        return true;
    }
    [[nodiscard]] bool untouched() const {
        return std::ranges::all_of(memory_, [](std::byte b) { return b == mark; });
    }

private:
    static constexpr std::byte mark{0xa5};

    std::size_t row_bytes_, stride_;
    std::vector<std::uint32_t> positions_;
    std::vector<std::byte> memory_;
};

/// Gathers and compares with the file.
template <gneiss::row_source S>
bool gathers(S& source, const rows_file& file, std::span<const gneiss::node_id> ids, std::uint64_t seed = 0) {
    gathered_rows to(ids.size(), file.stored.row_bytes, seed);
    source.gather(ids, to.target());
    return to.equal(file, ids);
}

} // namespace storage_test
