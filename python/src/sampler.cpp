// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/layer_view.hpp>
#include <gneiss/sample/neighbor.hpp>

#include "arrays.hpp"
#include "errors.hpp"
#include "kit/cli/machine.hpp"
#include "kit/cli/units.hpp"
#include "kit/graph/graph_in_memory.hpp"
#include "kit/graph/sample_checksum.hpp"
#include "module.hpp"

namespace gneiss_python {

namespace nb = nanobind;

namespace {

using gneiss::node_id;

/// A drawn sample: it owns the arrays that its views show.
struct sample {
    gneiss::mini_batch_arena arena;
    std::variant<gneiss::dense_sample<>, gneiss::neighbor_sample<>> arrays;
    gneiss::layer_stack layers;

    [[nodiscard]] std::span<const node_id> nodes() const {
        if (const auto* dense = std::get_if<gneiss::dense_sample<>>(&arrays)) return dense->node_ids;
        return std::get<gneiss::neighbor_sample<>>(arrays).nodes;
    }
    [[nodiscard]] std::size_t seeds() const {
        return std::visit([](const auto& of) { return of.seeds(); }, arrays);
    }
    [[nodiscard]] std::size_t edges() const {
        return std::visit([](const auto& of) { return of.edges(); }, arrays);
    }
    [[nodiscard]] std::uint64_t checksum() const {
        return std::visit([](const auto& of) { return programs::sample_checksum(of); }, arrays);
    }
};

/// A sampler of the neighbors in a dataset, whose lists are in memory. Threads may draw at once.
class sampler {
public:
    sampler(std::shared_ptr<gneiss::dataset> data, const std::string& fanout, const std::string& kind,
        const std::string& direction, std::uint64_t seed, bool replace, const std::optional<std::string>& memory,
        unsigned threads)
        : data_(std::move(data)),
          options_{gneiss::parse_fanout(fanout, programs::parse_direction(direction)), replace},
          dense_(kind == "dense"),
          seed_(seed),
          executor_(threads != 0 ? threads : programs::usable_cpus()),
          budget_(memory ? programs::parse_size(*memory).bytes : programs::available_memory() / 10 * 9) {
        refuse_forked_process();
        const gneiss::bucket_store store = data_->buckets();
        const gneiss::neighbor_direction directions = programs::directions_of(options_.fanout);
        charge_ = budget_.charge({"graph", programs::bytes_in_memory(store, directions)});
        graph_.emplace(programs::read_graph(store, directions, budget_));
    }

    /// Returns a sample that the caller owns.
    [[nodiscard]] sample* draw(const id_array& seeds, std::uint64_t epoch, std::uint64_t batch) {
        refuse_forked_process();
        const nb::gil_scoped_release released;
        const gneiss::batch_key key{epoch, {0, 0, batch}};
        auto drawn = std::make_unique<sample>();
        if (dense_)
            draw_by(dense_samplers_, key, ids_of(seeds), *drawn);
        else
            draw_by(neighbor_samplers_, key, ids_of(seeds), *drawn);
        return drawn.release();
    }

    /// Returns the memory of the lists of neighbors [bytes].
    [[nodiscard]] std::uint64_t graph_bytes() const { return budget_.used(); }

private:
    /// Draws by a sampler that no other thread uses: it keeps scratch memory.
    template <class Sampler>
    void draw_by(std::vector<std::unique_ptr<Sampler>>& idle, const gneiss::batch_key& key,
        std::span<const node_id> seeds, sample& to) {
        std::unique_ptr<Sampler> mine;
        {
            const std::scoped_lock lock(mutex_);
            if (!idle.empty()) {
                mine = std::move(idle.back());
                idle.pop_back();
            }
        }
        if (!mine) mine = std::make_unique<Sampler>(options_, seed_);
        const auto drawn = mine->sample(key, *graph_, seeds, executor_, to.arena);
        to.layers.assign(drawn, executor_, gneiss::layer_stack::lists::forward);
        to.arrays = drawn;
        const std::scoped_lock lock(mutex_);
        idle.push_back(std::move(mine));
    }

    std::shared_ptr<gneiss::dataset> data_;
    gneiss::neighbor_options options_;
    bool dense_;
    std::uint64_t seed_;
    gneiss::tbb_executor executor_;
    gneiss::memory_budget budget_;
    gneiss::memory_charge charge_;
    std::optional<gneiss::csr_graph<>> graph_;
    std::mutex mutex_; ///< guards the samplers that no thread uses
    std::vector<std::unique_ptr<gneiss::dense_sampler<>>> dense_samplers_;
    std::vector<std::unique_ptr<gneiss::neighbor_sampler<>>> neighbor_samplers_;
};

/// Returns (targets, sources, first_target, offsets, neighbors) of each layer.
nb::list layers_of(nb::handle_t<sample> self) {
    const auto& of = nb::cast<const sample&>(self);
    nb::list layers;
    for (const gneiss::layer_view& view : of.layers)
        layers.append(nb::make_tuple(
            view.targets, view.sources, view.first_target, view_of(view.offsets, self), view_of(view.neighbors, self)));
    return layers;
}

/// Returns a DENSE sample's (node_id_offsets, node_ids, nbr_offsets, nbrs, repr_map), or a neighbor sample's (nodes,
/// node_counts, edge_counts, offsets, neighbors).
nb::tuple arrays_of(nb::handle_t<sample> self) {
    const auto& of = nb::cast<const sample&>(self);
    if (const auto* dense = std::get_if<gneiss::dense_sample<>>(&of.arrays))
        return nb::make_tuple(view_of(dense->node_id_offsets, self), view_of(dense->node_ids, self),
            view_of(dense->nbr_offsets, self), view_of(dense->nbrs, self), view_of(dense->repr_map, self));
    const auto& hops = std::get<gneiss::neighbor_sample<>>(of.arrays);
    return nb::make_tuple(view_of(hops.nodes, self), view_of(hops.node_counts, self), view_of(hops.edge_counts, self),
        view_of(hops.offsets, self), view_of(hops.neighbors, self));
}

/// Returns the numbers below `size` in an order that depends on seed and epoch alone, uint32 [size].
nb::object permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch) {
    auto order = std::make_unique<std::vector<std::uint32_t>>(size);
    const gneiss::keyed_permutation at(size, gneiss::random_key(seed, gneiss::random_domain::user).with(epoch));
    for (std::uint64_t i = 0; i < size; ++i) (*order)[i] = static_cast<std::uint32_t>(at(i));
    std::vector<std::uint32_t>* const values = order.get();
    const nb::capsule owner(
        order.release(), [](void* p) noexcept { delete static_cast<std::vector<std::uint32_t>*>(p); });
    return view_of(std::span<const std::uint32_t>(*values), owner);
}

} // namespace

void add_sampler(nb::module_& to) {
    nb::class_<sample>(to, "Sample")
        .def_prop_ro(
            "nodes", [](nb::handle_t<sample> self) { return view_of(nb::cast<const sample&>(self).nodes(), self); })
        .def_prop_ro("seeds", &sample::seeds)
        .def_prop_ro("edges", &sample::edges)
        .def_prop_ro("checksum", &sample::checksum)
        .def_prop_ro("bytes", [](const sample& self) { return self.arena.reserved(); })
        .def("layers", layers_of)
        .def("arrays", arrays_of);
    nb::class_<sampler>(to, "Sampler")
        .def(nb::init<std::shared_ptr<gneiss::dataset>, const std::string&, const std::string&, const std::string&,
                 std::uint64_t, bool, const std::optional<std::string>&, unsigned>(),
            nb::arg("data"), nb::arg("fanout"), nb::arg("kind"), nb::arg("direction"), nb::arg("seed"),
            nb::arg("replace"), nb::arg("memory").none(), nb::arg("threads"), nb::call_guard<nb::gil_scoped_release>())
        .def("draw", &sampler::draw, nb::arg("seeds").noconvert(), nb::arg("epoch"), nb::arg("batch"),
            nb::rv_policy::take_ownership)
        .def_prop_ro("graph_bytes", &sampler::graph_bytes);
    to.def("permutation", permutation, nb::arg("size"), nb::arg("seed"), nb::arg("epoch"));
    to.def(
        "samples_checksum", [](const std::vector<std::uint64_t>& sums) { return programs::samples_checksum(sums); },
        nb::arg("sums"));
}

} // namespace gneiss_python
