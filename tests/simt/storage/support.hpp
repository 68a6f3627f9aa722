#pragma once

#include <gneiss/core/random.hpp>
#include <gneiss/storage/feature/row_source.hpp>

#include <simt/model/support.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

// Shared by tests of device rows: a host source of random bytes.
namespace simt_storage {

using namespace gneiss;

/// Rows of random bytes in memory. Models `row_source`.
class table_source {
public:
    bool fails = false; ///< the next gather throws

    table_source(std::uint64_t rows, std::size_t row_bytes)
        : rows_(rows),
          row_bytes_(row_bytes),
          bytes_(rows * row_bytes) {
        const random_key key(row_bytes, random_domain::user);
        for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>(key[i]);
    }

    [[nodiscard]] std::uint64_t rows() const { return rows_; }
    [[nodiscard]] std::size_t row_bytes() const { return row_bytes_; }
    void gather(std::span<const node_id> ids, const gather_target& to) {
        if (fails) throw error(errc::io, "planned");
        for (std::size_t i = 0; i < ids.size(); ++i) std::memcpy(to.row(i), row(ids[i]), row_bytes_);
        statistics_.rows += ids.size();
        statistics_.bytes_wanted += ids.size() * row_bytes_;
    }
    [[nodiscard]] gather_stats statistics() const { return statistics_; }
    [[nodiscard]] const std::byte* row(node_id id) const { return bytes_.data() + id * row_bytes_; }

private:
    std::uint64_t rows_;
    std::size_t row_bytes_;
    std::vector<std::byte> bytes_;
    gather_stats statistics_;
};
static_assert(row_source<table_source>);

/// True if row i of `out` equals row ids[i] to the bit for all i, and memory after it is unchanged.
template <class T>
bool equal(const simt_model::rows<T>& out, const table_source& source, std::span<const node_id> ids) {
    const simt_model::rows<T> untouched(out.size(), out.columns(), simt_model::layout::aligned);
    for (std::size_t i = 0; i < out.size(); ++i) {
        const void* const want = i < ids.size() ? static_cast<const void*>(source.row(ids[i])) : untouched.view()[i];
        if (std::memcmp(out.view()[i], want, out.columns() * sizeof(T)) != 0) return false;
    }
    return true;
}

} // namespace simt_storage
