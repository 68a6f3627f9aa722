// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/engine/any_engine.hpp>

namespace gneiss {

/// An open file of an engine, closed by the destructor.
///
/// Meaning: bytes move through an `io_queue` on the same engine; this object has name, size and alignment. After a
/// failed sync the file is *poisoned*: the kernel may have dropped the dirty pages and marked them clean, so a second
/// sync would succeed without data on the device. Every later write, sync or resize through this object throws; memory
/// then holds the only copy.
/// Precondition: the engine outlives the file and stays at its address; the file stays at its address while
/// operations on it are outstanding. Errors: `io_error`. Thread-safety: that of its engine.
class file {
    /// Adds the name to errors of the engine, which knows handles only.
    template <class Call>
    auto named(Call call) const {
        try {
            return call();
        } catch (const io_error& e) {
            if (!e.place().path.empty()) throw;
            error_place place = e.place();
            place.path = path_;
            throw io_error(e.code().value(), "cannot query or resize", std::move(place));
        }
    }

public:
    /// Opens the file. Throws io_error.
    file(any_engine& engine, std::filesystem::path path, const open_options& options = {})
        : engine_(&engine),
          path_(std::move(path)),
          handle_(engine.open(path_, options)),
          writable_(options.write),
          alignment_(engine.direct_alignment(handle_)) {}
    file(file&& other) noexcept
        : engine_(other.engine_),
          path_(std::move(other.path_)),
          handle_(std::exchange(other.handle_, -1)),
          writable_(other.writable_),
          poison_(other.poison_),
          alignment_(other.alignment_) {}
    file& operator=(file&& other) noexcept {
        std::swap(engine_, other.engine_);
        std::swap(path_, other.path_);
        std::swap(handle_, other.handle_);
        std::swap(writable_, other.writable_);
        std::swap(poison_, other.poison_);
        std::swap(alignment_, other.alignment_);
        return *this;
    }
    ~file() { close(); }

    /// Returns the engine.
    [[nodiscard]] any_engine& engine() const noexcept { return *engine_; }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    /// Returns the engine's handle.
    [[nodiscard]] int handle() const noexcept { return handle_; }
    /// True until the file is closed or moved from.
    [[nodiscard]] bool is_open() const noexcept { return handle_ >= 0; }
    /// True if it was opened for writing.
    [[nodiscard]] bool writable() const noexcept { return writable_; }
    /// Alignment of offset, length and address of each operation; 1 if the page cache is used.
    [[nodiscard]] std::size_t alignment() const noexcept { return alignment_; }
    /// True if it bypasses the page cache.
    [[nodiscard]] bool direct() const noexcept { return alignment_ > 1; }

    /// Returns the size [bytes].
    [[nodiscard]] std::uint64_t size() const {
        return named([&] { return engine_->size(handle_); });
    }
    /// Truncates the file or extends it by zeros. Not durable before the next sync.
    void resize(std::uint64_t bytes) {
        throw_if_poisoned();
        named([&] { engine_->resize(handle_, bytes); });
    }

    /// Precondition: no operation on the file is outstanding.
    void close() noexcept {
        if (handle_ >= 0) engine_->close(std::exchange(handle_, -1));
    }

    /// errno of the failed sync; 0: none.
    [[nodiscard]] int poison() const noexcept { return poison_; }
    /// Refuses later writes and syncs with this errno.
    void set_poison(int error_number) noexcept { poison_ = error_number; }
    /// Throws the errno of a failed sync, if any.
    void throw_if_poisoned() const {
        if (poison_ != 0) throw io_error(poison_, "refused after a failed sync", {.path = path_});
    }

private:
    any_engine* engine_;
    std::filesystem::path path_;
    int handle_ = -1;
    bool writable_ = false;
    int poison_ = 0;
    std::size_t alignment_ = 1;
};

} // namespace gneiss
