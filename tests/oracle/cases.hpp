#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/io/npy_header.hpp>

// Shared by the commands of the oracle's driver: random inputs, and cases written for Python.
namespace oracle {

/// Writes an array as .npy; its shape is [size] by default.
template <class T>
void write_array(const std::filesystem::path& path, std::span<const T> values, std::vector<std::uint64_t> shape = {}) {
    if (shape.empty()) shape = {values.size()};
    const auto header = gneiss::format_npy_header(gneiss::npy_dtype_of<T>(), shape);
    std::ofstream out(path, std::ios::binary);
    out.exceptions(std::ios::badbit | std::ios::failbit);
    out.write(reinterpret_cast<const char*>(header.data()), static_cast<std::streamsize>(header.size()));
    const auto bytes = std::as_bytes(values);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

/// Writes cases: one line of JSON per case in `cases.jsonl`, and a folder of arrays named by the line's number.
class case_writer {
public:
    explicit case_writer(std::filesystem::path root) : root_(std::move(root)) {
        std::filesystem::create_directories(root_);
        lines_.open(root_ / "cases.jsonl");
    }

    /// Starts the next case; arrays that follow belong to it.
    void begin(const nlohmann::json& description) {
        lines_ << description.dump() << '\n';
        folder_ = root_ / std::to_string(count_++);
        std::filesystem::create_directories(folder_);
    }
    template <class T>
    void put(const std::string& name, const std::vector<T>& values, std::vector<std::uint64_t> shape = {}) const {
        write_array(folder_ / (name + ".npy"), std::span<const T>(values), std::move(shape));
    }
    template <class T>
    void put(const std::string& name, std::span<T> values, std::vector<std::uint64_t> shape = {}) const {
        write_array(folder_ / (name + ".npy"), std::span<const std::remove_const_t<T>>(values), std::move(shape));
    }
    template <class T>
    void put(const std::string& name, gneiss::matrix_view<T> values) const {
        std::vector<std::remove_const_t<T>> copy;
        for (std::size_t row = 0; row < values.rows(); ++row)
            for (std::size_t column = 0; column < values.columns(); ++column) copy.push_back(values(row, column));
        put(name, copy, {values.rows(), values.columns()});
    }
    [[nodiscard]] std::size_t count() const noexcept { return count_; }

private:
    std::filesystem::path root_, folder_;
    std::ofstream lines_;
    std::size_t count_ = 0;
};

/// Draws uniform values in [low, high) from one stream of random words.
class random_values {
public:
    explicit random_values(std::uint64_t seed) : words_(gneiss::random_key(seed, gneiss::random_domain::user)) {}

    float value(float low = -1, float high = 1) { return low + (high - low) * gneiss::to_unit_float(words_()); }
    std::uint32_t below(std::uint64_t bound) { return static_cast<std::uint32_t>(words_.below(bound)); }
    std::vector<float> list(std::size_t size, float low = -1, float high = 1) {
        std::vector<float> values(size);
        for (float& x : values) x = value(low, high);
        return values;
    }

private:
    gneiss::random_stream words_;
};

void write_layers(const std::filesystem::path& root);
void write_training(const std::filesystem::path& root);
void write_draws(const std::filesystem::path& root);
void write_weights(const std::filesystem::path& checkpoint, const std::string& layers, std::size_t columns, bool sparse,
    const std::filesystem::path& root);

} // namespace oracle
