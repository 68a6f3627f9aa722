// SPDX-License-Identifier: Apache-2.0
#include <gneiss/io/dataset.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "errors.hpp"
#include "kit/cli/dataset_path.hpp"
#include "module.hpp"

namespace gneiss_python {

namespace nb = nanobind;

namespace {

using gneiss::dataset;

std::shared_ptr<dataset> open_dataset(const std::string& path) {
    refuse_forked_process();
    programs::check_dataset(path);
    return std::make_shared<dataset>(path);
}

/// Returns the place of an index that may count from the end, as in Python.
std::uint64_t checked_index(std::int64_t index, std::uint64_t size) {
    const auto from_start = index < 0 ? index + static_cast<std::int64_t>(size) : index;
    if (from_start < 0 || static_cast<std::uint64_t>(from_start) >= size) throw nb::index_error("index out of range");
    return static_cast<std::uint64_t>(from_start);
}

} // namespace

void add_dataset(nb::module_& to) {
    nb::class_<dataset>(to, "Dataset")
        .def(nb::new_(&open_dataset), nb::arg("path"))
        .def_prop_ro("name", [](const dataset& self) { return self.manifest().name; })
        .def_prop_ro("task", [](const dataset& self) { return std::string(to_string(self.manifest().task)); })
        .def_prop_ro("ids", [](const dataset& self) { return std::string(to_string(self.manifest().ids)); })
        .def_prop_ro("nodes", [](const dataset& self) { return self.manifest().nodes; })
        .def_prop_ro("relations", [](const dataset& self) { return self.manifest().relations; })
        .def_prop_ro("train_edges", [](const dataset& self) { return self.manifest().train_edges; })
        .def_prop_ro("valid_edges", [](const dataset& self) { return self.manifest().valid_edges; })
        .def_prop_ro("test_edges", [](const dataset& self) { return self.manifest().test_edges; })
        .def_prop_ro("partitions", [](const dataset& self) { return self.manifest().partitions; })
        .def_prop_ro("num_features", [](const dataset& self) { return self.manifest().node_attributes.features; })
        .def_prop_ro("classes", [](const dataset& self) { return self.manifest().node_attributes.classes; })
        .def_prop_ro("node_task",
            [](const dataset& self) { return std::string(to_string(self.manifest().node_attributes.target)); })
        .def("has", [](const dataset& self, const std::string& array) { return self.has(array); })
        .def(
            "check", [](const dataset& self) { self.verify(); }, nb::call_guard<nb::gil_scoped_release>())
        .def("node_name",
            [](const dataset& self, std::int64_t row) {
                return self.node_label(checked_index(row, self.manifest().nodes));
            })
        .def("find_node", [](const dataset& self, const std::string& name) { return self.find_row(name); })
        .def("relation_name",
            [](const dataset& self, std::int64_t relation) {
                return self.relation_label(checked_index(relation, self.manifest().relations));
            })
        .def("find_relation", [](const dataset& self, const std::string& name) { return self.find_relation(name); })
        .def("class_name",
            [](const dataset& self, std::int64_t index) {
                return self.class_label(
                    static_cast<std::int32_t>(checked_index(index, self.manifest().node_attributes.classes)));
            })
        .def("find_class", [](const dataset& self, const std::string& name) -> std::optional<std::uint64_t> {
            for (std::uint64_t c = 0; c < self.manifest().node_attributes.classes; ++c)
                if (self.class_label(static_cast<std::int32_t>(c)) == name) return c;
            return std::nullopt;
        });
}

} // namespace gneiss_python
