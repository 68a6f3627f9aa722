// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <gneiss/cache/any_policy.hpp>
#include <gneiss/cache/belady.hpp>
#include <gneiss/cache/detail/repeated_row.hpp>
#include <gneiss/cache/lru.hpp>
#include <gneiss/cache/static_cache.hpp>
#include <gneiss/cache/trace.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/engine/probe.hpp>
#include <gneiss/storage/feature/cached_rows.hpp>
#include <gneiss/storage/feature/row_gather.hpp>

#include "arrays.hpp"
#include "errors.hpp"
#include "kit/cli/exit_codes.hpp"
#include "kit/cli/io_engines.hpp"
#include "kit/cli/machine.hpp"
#include "kit/cli/units.hpp"
#include "module.hpp"

namespace gneiss_python {

namespace nb = nanobind;

namespace {

using gneiss::node_id;
using cache = gneiss::cached_rows<gneiss::disk_rows>;
using row_array = nb::ndarray<nb::c_contig>;

constexpr gneiss::slot_table_kind table = gneiss::slot_table_kind::hashed;
/// Memory of a policy for a row of the cache, at most [bytes]: see `belady_need`; and two copies of the rows that a
/// plan carries over.
constexpr std::uint64_t policy_bytes = 56;

/// A part of the memory that Belady's cache leaves for the batches that are planned.
constexpr std::uint64_t planned_share = 4;
/// A part of the memory that other caches leave for the ids of a gather.
constexpr std::uint64_t gather_share = 16;

/// Returns the rows that a cache holds within `bytes`.
std::size_t capacity_within(std::uint64_t bytes, std::uint64_t rows, std::size_t row_bytes) {
    std::uint64_t fits = 0, beyond = std::min(rows, bytes / row_bytes) + 1;
    while (fits + 1 < beyond) {
        const std::uint64_t middle = fits + (beyond - fits) / 2;
        const std::uint64_t needed = cache::need(rows, row_bytes, middle, table).bytes + middle * policy_bytes;
        (needed <= bytes ? fits : beyond) = middle;
    }
    return fits;
}

/// Rows of features on disk, with a cache of some of them. One thread at a time uses it; others wait.
class features {
public:
    features(std::shared_ptr<gneiss::dataset> data, std::string policy, const std::optional<std::string>& memory,
        const id_array& rank, unsigned threads)
        : data_(std::move(data)),
          kind_(std::move(policy)),
          executor_(threads != 0 ? threads : programs::usable_cpus()),
          budget_(memory ? programs::parse_size(*memory).bytes : programs::available_memory() / 10 * 9) {
        refuse_forked_process();
        const gneiss::node_features stored = data_->features();
        if (stored.columns() == 0)
            throw gneiss::error(gneiss::errc::not_found, "the dataset has no features", {.path = data_->directory()});
        if (stored.sparse())
            throw gneiss::error(gneiss::errc::unsupported,
                "sparse features have no rows of one size: gneiss-data import --project makes dense ones",
                {.path = data_->path("features.indptr")});
        const gneiss::feature_files files = stored.files();
        if (files.type != gneiss::feature_type::f32 && files.type != gneiss::feature_type::f16)
            throw gneiss::error(gneiss::errc::unsupported,
                "features of bf16 and int8 are not gathered: gneiss-data convert --feature-type f16 changes them",
                {.path = files.values.path});
        half_ = files.type == gneiss::feature_type::f16;
        columns_ = static_cast<std::size_t>(files.columns);
        const gneiss::stored_rows rows{.path = files.values.path,
            .offset = files.values.checksums.data_offset(),
            .rows = files.rows,
            .row_bytes = gneiss::row_bytes(files.type, columns_)};
        const gneiss::gather_options reads{
            .staging_bytes = std::clamp<std::size_t>(budget_.limit() / 8, std::size_t{1} << 20, std::size_t{16} << 20)};
        const gneiss::engine_choice engine = gneiss::choose_engine("auto", programs::io_engine_candidates());
        disk_.emplace(engine.make, rows, reads, executor_, budget_);
        std::uint64_t left = budget_.limit() - budget_.used();
        left -= left / (kind_ == "belady" ? planned_share : gather_share);
        const std::size_t capacity = kind_ == "none" ? 0 : capacity_within(left, rows.rows, rows.row_bytes);
        policy_memory_ = budget_.charge({"cache policy", capacity * policy_bytes});
        cache_.emplace(*disk_, capacity, table, executor_, budget_);
        if (kind_ == "lru") policy_.emplace(gneiss::lru(capacity));
        if (kind_ == "static") {
            const std::vector<gneiss::node_id> best =
                rank.size() == 0 ? gneiss::rank_by(degrees(), capacity) : gneiss::rank_by(ids_of(rank), capacity);
            policy_.emplace(gneiss::static_cache(best, capacity));
            cache_->fill(policy_->initial());
        }
    }

    /// Plans the batches to come, for Belady's cache, which keeps the rows that it has and reads the first missing
    /// ones.
    void plan(const std::vector<id_array>& batches) {
        if (kind_ != "belady") throw programs::usage_error("plan() is for cache=\"belady\"");
        const nb::gil_scoped_release released;
        const std::scoped_lock lock(mutex_);
        gneiss::memory_trace trace;
        std::uint64_t accesses = 0;
        for (const id_array& ids : batches) accesses += ids.shape(0);
        if (best_) carried_ = best_->resident();
        best_.reset();
        plan_memory_ = {};
        plan_memory_ = budget_.charge({"planned batches",
            4 * accesses + gneiss::belady_need(accesses, std::min(accesses, cache_->rows()), {}).bytes});
        for (const id_array& ids : batches) trace.append(ids_of(ids));
        if (carried_.size() != cache_->held()) { // a gather failed
            cache_->release();
            cache_->acquire();
            carried_.clear();
        }
        gneiss::belady_policy best(trace, {.capacity = cache_->capacity(), .resident = carried_}, executor_);
        cache_->fill(best.fill().in, best.fill().out);
        best_.emplace(std::move(best));
        planned_ = batches.size();
    }

    /// Writes the rows of a batch into `out` [ids, columns].
    /// \param distinct  the ids are known to be distinct
    void gather(const id_array& ids, const row_array& out, bool distinct) {
        check(ids, out);
        const nb::gil_scoped_release released;
        const std::scoped_lock lock(mutex_);
        if (kind_ == "belady" && planned_ == 0)
            throw programs::usage_error("cache=\"belady\" knows no batch to come: plan() names the next ones");
        const std::span<const node_id> rows = ids_of(ids);
        if (!distinct) refuse_repeated(rows);
        const gneiss::gather_target to{
            .data = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(out.data()))),
            .stride = cache_->row_bytes(),
            .rows = out.shape(0)};
        cache_->gather(rows, to);
        if (best_) {
            best_->next(rows, changes_);
            --planned_;
        } else if (policy_) {
            policy_->next(rows, changes_);
        } else {
            return;
        }
        cache_->apply(changes_, rows, to);
    }

    [[nodiscard]] std::size_t columns() const noexcept { return columns_; }
    [[nodiscard]] const char* dtype() const noexcept { return half_ ? "float16" : "float32"; }
    [[nodiscard]] std::size_t capacity() const { return cache_->capacity(); }
    /// Returns (rows asked for, of which from the cache, bytes read).
    [[nodiscard]] nb::tuple statistics() const {
        const gneiss::gather_stats of = cache_->statistics();
        return nb::make_tuple(of.rows, of.hits, of.io.read_bytes);
    }

private:
    void check(const id_array& ids, const row_array& out) const {
        const nb::dlpack::dtype wanted = half_
            ? nb::dlpack::dtype{static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), 16, 1}
            : nb::dtype<float>();
        if (out.dtype() != wanted) throw nb::type_error((std::string("out is not of ") + dtype()).c_str());
        if (out.device_type() != nb::device::cpu::value && out.device_type() != nb::device::cuda_host::value)
            throw programs::usage_error("out is on a device: rows are gathered into the memory of the host");
        if (out.ndim() != 2 || out.shape(0) != ids.shape(0) || out.shape(1) != columns_)
            throw programs::usage_error(
                "out is not [" + std::to_string(ids.shape(0)) + ", " + std::to_string(columns_) + "]");
    }
    /// Policies and the cache need distinct rows.
    static void refuse_repeated(std::span<const node_id> rows) {
        if (const auto twice = gneiss::detail::repeated_row(rows))
            throw programs::usage_error("ids name row " + std::to_string(*twice) + " twice: gather each row once");
    }
    /// Returns the number of training edges that begin at each node: samplers of incoming edges meet it as often.
    [[nodiscard]] std::vector<std::uint32_t> degrees() const {
        std::vector<std::uint32_t> counts(data_->manifest().nodes);
        data_->buckets().for_each_edge([&](std::span<const gneiss::edge> edges) {
            for (const gneiss::edge& e : edges) ++counts[e.source];
        });
        return counts;
    }

    std::shared_ptr<gneiss::dataset> data_;
    std::string kind_;
    gneiss::tbb_executor executor_;
    gneiss::memory_budget budget_;
    std::optional<gneiss::disk_rows> disk_;
    gneiss::memory_charge policy_memory_, plan_memory_;
    std::optional<cache> cache_;
    std::optional<gneiss::any_cache_policy> policy_; ///< lru or static
    std::optional<gneiss::belady_policy> best_;      ///< of the planned batches
    std::vector<node_id> carried_;                   ///< rows in the cache when the last plan began
    std::size_t columns_ = 0, planned_ = 0;
    bool half_ = false;
    gneiss::change_set changes_;
    std::mutex mutex_;
};

} // namespace

void add_features(nb::module_& to) {
    nb::class_<features>(to, "Features")
        .def(nb::init<std::shared_ptr<gneiss::dataset>, std::string, const std::optional<std::string>&, const id_array&,
                 unsigned>(),
            nb::arg("data"), nb::arg("cache"), nb::arg("memory").none(), nb::arg("rank"), nb::arg("threads"),
            nb::call_guard<nb::gil_scoped_release>())
        .def("plan", &features::plan, nb::arg("batches"))
        .def("gather", &features::gather, nb::arg("ids").noconvert(), nb::arg("out").noconvert(),
            nb::arg("distinct") = false)
        .def_prop_ro("columns", &features::columns)
        .def_prop_ro("dtype", &features::dtype)
        .def_prop_ro("capacity", &features::capacity)
        .def_prop_ro("statistics", &features::statistics);
}

} // namespace gneiss_python
