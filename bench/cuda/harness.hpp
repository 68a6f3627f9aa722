#pragma once

// Times kernels: each case compared with the device's measured copy bandwidth and, if available, NVIDIA's own library.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <regex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cuda/model.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/cuda/core/device.cuh>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/launch.cuh>

namespace gpu_bench {

using namespace gneiss;

/// One line of the result: fields in their order, as JSON.
class record {
public:
    explicit record(const std::string& name) : name_(name) { add("case", name); }
    [[nodiscard]] const std::string& name() const { return name_; }
    record& add(const std::string& key, const std::string& value) { return raw(key, '"' + value + '"'); }
    record& add(const std::string& key, const char* value) { return add(key, std::string(value)); }
    record& add(const std::string& key, std::integral auto value) { return raw(key, std::to_string(value)); }
    record& add(const std::string& key, double value) {
        char text[32];
        std::snprintf(text, sizeof text, "%.6g", value);
        return raw(key, text);
    }
    [[nodiscard]] std::string json() const { return "{" + text_ + "}"; }

private:
    record& raw(const std::string& key, const std::string& value) {
        text_ += (text_.empty() ? "\"" : ", \"") + key + "\": " + value;
        return *this;
    }
    std::string name_, text_;
};

/// Reads [0, size) of `from`, zeros.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) read_all(const uint4* from, std::size_t size, std::uint32_t* out) {
    std::uint32_t all = 0;
    for (std::size_t i = std::size_t{blockIdx.x} * Threads + threadIdx.x; i < size;
        i += std::size_t{gridDim.x} * Threads)
        all |= __ldg(from + i).x;
    if (all != 0) *out = all;
}

/// Minimum bytes and operations of a case, the basis of its rating.
struct work {
    double bytes = 0, operations = 0;
    double row_bytes = 0, queries = 0; ///< on which the model's expectation depends, see `gpu_model::kernel_case`
    bool halves = false;               ///< operands are bfloat16
};

/// Runs cases on the GPU or, at tiny sizes, on the emulator, whose times are meaningless.
class bench {
public:
    static constexpr bool emulated =
#if defined(GNEISS_SIMT)
        true;
#else
        false;
#endif

    bench(std::FILE* json, const std::string& filter, bool once)
        : once_(once || emulated),
          json_(json),
          filter_(filter) {}

    /// Returns the full size, or the one for the emulator.
    [[nodiscard]] static constexpr std::uint32_t size(std::uint32_t full, std::uint32_t tiny) {
        return emulated ? tiny : full;
    }

    /// Device memory with a copy of `host`; or of random numbers, by `random`; or filled with one byte.
    template <class T>
    [[nodiscard]] cuda::device_buffer<T> copied(std::span<const T> host) {
        cuda::device_buffer<T> to(budget_, "benchmark", std::max<std::size_t>(host.size(), 1));
        cuda::copy_async(to.span().first(host.size()), host, in_);
        in_.synchronize();
        return to;
    }
    template <class T>
    [[nodiscard]] cuda::device_buffer<T> one(const T& value) {
        return copied(std::span<const T>(&value, 1));
    }
    /// Random bits that are floats, and halves that are bfloat16, in (-1, 1), the same each time.
    template <class T>
    [[nodiscard]] cuda::device_buffer<T> random(std::size_t count) {
        cuda::device_buffer<T> to(budget_, "benchmark", count);
        const std::span<std::byte> all(reinterpret_cast<std::byte*>(to.data()), to.bytes());
        const std::span<const std::byte> tile = std::as_bytes(std::span<const std::uint16_t>(random_));
        for (std::size_t at = 0; at < all.size(); at += tile.size()) {
            const std::size_t bytes = std::min(tile.size(), all.size() - at);
            cuda::copy_async(all.subspan(at, bytes), tile.first(bytes), in_);
        }
        in_.synchronize();
        return to;
    }
    template <class T>
    [[nodiscard]] cuda::device_buffer<T> filled(std::size_t count, unsigned char bytes = 0) {
        cuda::device_buffer<T> to(budget_, "benchmark", count);
        cuda::fill_bytes_async(to.span(), bytes, in_);
        in_.synchronize();
        return to;
    }
    template <class T>
    [[nodiscard]] cuda::pinned_buffer<T> pinned(std::size_t count) {
        cuda::pinned_buffer<T> to(budget_, "benchmark", count);
        const std::span<std::byte> all(reinterpret_cast<std::byte*>(to.data()), to.bytes());
        const std::span<const std::byte> tile = std::as_bytes(std::span<const std::uint16_t>(random_));
        for (std::size_t at = 0; at < all.size(); at += tile.size())
            std::memcpy(all.data() + at, tile.data(), std::min(tile.size(), all.size() - at));
        return to;
    }
    [[nodiscard]] memory_budget& budget() { return budget_; }
    [[nodiscard]] cuda::stream& stream() { return in_; }

    /// Returns the median milliseconds of step(stream), by events around each run. Before each, the cache is filled
    /// with other memory, so that a run reads its inputs from memory, not what the last one left in L2.
    template <class Step>
    [[nodiscard]] double milliseconds(Step&& step) {
        for (int i = 0; i < (once_ ? 0 : 3); ++i) step(in_.get());
        const cuda::device_info device = cuda::devices().front();
        if (!once_ && others_.empty()) {
            others_ = filled<uint4>(2 * device.l2_cache / sizeof(uint4));
            found_ = filled<std::uint32_t>(1);
        }
        std::vector<double> times;
        double sum = 0;
        while (times.empty() || (!once_ && times.size() < 30 && (sum < 60 || times.size() < 5))) {
            if (!others_.empty())
                cuda::launch(in_.get(), read_all<256>, static_cast<unsigned>(4 * device.multiprocessors), 256, 0,
                    others_.data(), others_.size(), found_.data());
            begin_.record(in_);
            step(in_.get());
            end_.record(in_);
            in_.synchronize();
            times.push_back(static_cast<double>(end_.milliseconds_since(begin_)));
            sum += times.back();
        }
        std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
        return times[times.size() / 2];
    }
    /// Returns true if the case is requested.
    [[nodiscard]] bool wanted(const std::string& name) const { return std::regex_search(name, filter_); }
    /// Returns true if one of the cases is.
    [[nodiscard]] bool wanted_any(std::initializer_list<const char*> names) const {
        return std::ranges::any_of(names, [&](const char* name) { return wanted(name); });
    }

    /// Reports a case: `ours` and `theirs` (of the library of that name) in milliseconds; beside its share of the
    /// limit, the one that the model expects.
    void report(record of, const work& what, double ours, std::optional<double> theirs = {}, const char* library = "") {
        of.add("ms", ours);
        if (what.bytes > 0) of.add("bytes", what.bytes).add("gb_per_s", what.bytes / ours / 1e6);
        if (what.bytes > 0 && copy_bandwidth_ > 0)
            of.add("percent_of_copy", 100 * what.bytes / ours / 1e6 / copy_bandwidth_);
        const gpu_model::expectation want =
            gpu_model::expect({of.name(), what.bytes, what.operations, what.row_bytes, what.queries, what.halves},
                copy_bandwidth_, gpu_model::find_device(cuda::devices().front().name));
        if (want.share > 0 && want.limit_seconds > 0)
            of.add("percent_of_limit", 1e5 * want.limit_seconds / ours).add("expected_percent", 100 * want.share);
        if (what.operations > 0) of.add("operations", what.operations).add("tera_per_s", what.operations / ours / 1e9);
        if (theirs) of.add("library", library).add("library_ms", *theirs).add("times_as_fast", *theirs / ours);
        std::fprintf(json_, "%s\n", of.json().c_str());
        std::fflush(json_);
    }
    void set_copy_bandwidth(double gb_per_s) { copy_bandwidth_ = gb_per_s; }

private:
    [[nodiscard]] static std::vector<std::uint16_t> random_halves() {
        random_stream draw(random_key(7, random_domain::user));
        std::vector<std::uint16_t> all(std::size_t{1} << 19); // exponents of 2⁻⁷ … 2⁻¹, any sign and fraction
        for (std::uint16_t& half : all)
            half = static_cast<std::uint16_t>(draw.below(2) << 15 | (120 + draw.below(7)) << 7 | draw.below(128));
        return all;
    }

    memory_budget budget_;
    cuda::stream in_;
    std::vector<std::uint16_t> random_ = random_halves();
    cuda::device_buffer<uint4> others_; ///< twice the size of L2
    cuda::device_buffer<std::uint32_t> found_;
    cuda::event begin_{true}, end_{true};
    bool once_;
    std::FILE* json_;
    std::regex filter_;
    double copy_bandwidth_ = 0;
};

class oracle;

void graph_layers(bench& executor, const oracle& by);
void products(bench& executor, const oracle& by);
void training(bench& executor);
void sampling(bench& executor);
void primitives(bench& executor);

} // namespace gpu_bench
