#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/float16.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/engine/file.hpp>
#include <gneiss/storage/engine/memory.hpp>
#include <gneiss/storage/feature/feature_store.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/storage/io/io_queue.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss::test {

/// Storage form of features.
struct feature_form {
    bool sparse = false;
    bool f16 = false;
    bool int8 = false;   ///< dense only
    bool bf16 = false;   ///< dense only
    bool ones = false;   ///< sparse without values
    bool aligned = true; ///< checksum blocks end with partitions
    std::uint64_t header = 4096;
    std::uint64_t block_bytes = checksum_block_bytes;

    [[nodiscard]] feature_type type() const noexcept {
        return int8 ? feature_type::int8 : bf16 ? feature_type::bf16 : f16 ? feature_type::f16 : feature_type::f32;
    }
};

/// Rounds rows of `columns` values to those that a store of the type returns.
inline void round_as_stored(std::span<float> values, std::uint64_t columns, feature_type type) {
    std::vector<std::byte> stored(row_bytes(type, columns));
    for (; !values.empty(); values = values.subspan(static_cast<std::size_t>(columns))) {
        const std::span<float> row = values.first(static_cast<std::size_t>(columns));
        (void)encode_row(row, type, stored.data());
        decode_row(type, stored.data(), row);
    }
}

/// Writes features [nodes, columns] into files of a directory.
class feature_writer {
public:
    feature_writer(const std::filesystem::path& directory, row_partitioning rows, const feature_form& options)
        : directory_(directory),
          rows_(rows),
          options_(options) {}

    [[nodiscard]] feature_files write(std::span<const float> values, std::uint64_t columns) const {
        feature_files result{.rows = rows_.nodes, .columns = columns, .type = options_.type()};
        array numbers(*this, "numbers"), offsets(*this, "offsets"), indices(*this, "indices");
        const auto number = [&](float x) {
            if (options_.f16)
                numbers.append(to_float16(x));
            else if (options_.bf16)
                numbers.append(to_bfloat16(x));
            else
                numbers.append(x);
        };
        std::uint64_t end = 0;
        offsets.append(end);
        std::vector<std::byte> bytes(row_bytes(feature_type::int8, columns));
        for (std::uint64_t row = 0; row < rows_.nodes; ++row) {
            if (options_.int8) {
                (void)encode_row(
                    values.subspan(static_cast<std::size_t>(row * columns), static_cast<std::size_t>(columns)),
                    feature_type::int8, bytes.data());
                for (const std::byte b : bytes) numbers.append(b);
            }
            for (std::uint64_t c = 0; c < columns && !options_.int8; ++c) {
                const float x = values[row * columns + c];
                if (options_.sparse && x == 0) continue;
                if (!options_.ones) number(x);
                indices.append(static_cast<std::uint32_t>(c));
                ++end;
            }
            offsets.append(end);
            if (options_.aligned && row + 1 == rows_.begin(rows_.of(row) + 1))
                for (array* a : {&numbers, &indices}) a->sums.end_segment(); // offsets never end with partitions
        }
        if (!options_.ones) result.values = numbers.close();
        if (options_.sparse) {
            result.offsets = offsets.close();
            result.indices = indices.close();
        }
        return result;
    }

private:
    struct array {
        array(const feature_writer& of, const char* name)
            : path(of.directory_ / name),
              file(plain_file::create(path)),
              sums(file_id(name), of.options_.block_bytes),
              header(static_cast<std::size_t>(of.options_.header), std::byte{7}) {
            file.write_at(0, header);
        }
        template <class T>
        void append(T value) {
            const auto bytes = std::as_bytes(std::span(&value, 1));
            data.insert(data.end(), bytes.begin(), bytes.end());
            sums.update(bytes);
        }
        feature_files::array close() {
            file.write_at(header.size(), data);
            return {path, sums.finish(header)};
        }
        std::filesystem::path path;
        plain_file file;
        checksum_collector sums;
        std::vector<std::byte> header, data;
    };

    std::filesystem::path directory_;
    row_partitioning rows_;
    feature_form options_;
};

/// Copies a file to the same path of a file system in memory.
inline void copy_file(const memory_file_system& to, const std::filesystem::path& path) {
    const plain_file from = plain_file::open(path);
    std::vector<std::byte> bytes(static_cast<std::size_t>(from.size()));
    from.read_at(0, bytes);
    any_engine engine(memory_engine{to});
    file copy(engine, path, {.write = true, .create = true});
    io_queue queue(engine);
    queue.write(copy, 0, bytes);
    queue.drain();
}

} // namespace gneiss::test
