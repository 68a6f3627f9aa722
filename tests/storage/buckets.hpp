#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/storage/edge/bucket_builder.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>

namespace gneiss::test {

/// A block file without a header: words and their checksums.
class word_file {
public:
    explicit word_file(std::filesystem::path path)
        : path_(std::move(path)),
          file_(plain_file::create(path_)),
          sums_(file_id(path_.filename().string())) {}
    void append(std::span<const std::uint32_t> words) {
        file_.write_at(sums_.bytes(), std::as_bytes(words));
        sums_.update(std::as_bytes(words));
    }
    void end_segment() { sums_.end_segment(); }
    [[nodiscard]] std::uint64_t bytes() const { return sums_.bytes(); }
    bucket_store::block_file close() { return {path_, sums_.finish({})}; }

private:
    std::filesystem::path path_;
    plain_file file_;
    checksum_collector sums_;
};
static_assert(word_array<word_file>);

/// Sorts edges into buckets, in files of a directory. `memory` does not include the table.
template <class E = serial_executor>
bucket_store build(const std::filesystem::path& directory, const bucket_layout& layout, std::span<const edge> edges,
    std::uint64_t memory = 1 << 20, const E& executor = E{}) {
    bucket_builder<E> builder(
        layout, memory + bucket_builder<E>::table_bytes(layout.rows.partitions), directory, executor);
    builder.push(edges);
    word_file out(directory / "out"), in(directory / "in");
    auto table = builder.finish(out, in);
    return {layout, std::move(table), out.close(), in.close(), "table"};
}

} // namespace gneiss::test
