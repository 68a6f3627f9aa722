// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <gneiss/io/npy.hpp>
#include <gneiss/storage/io/plain_file.hpp>

#include "arrow_edges.hpp"
#include "arrow_stream.hpp"
#include "data/commands.hpp"
#include "errors.hpp"
#include "kit/cli/command_call.hpp"
#include "kit/report/records.hpp"
#include "module.hpp"
#include "observer.hpp"
#include "programs.hpp"

namespace gneiss_python {

namespace nb = nanobind;

namespace {

/// Runs `gneiss-data import` on edges of streams, each with its split, in place of files; returns its result as JSON.
std::string import_streams(const flag_values& values, const std::vector<std::pair<arrow_edges*, std::string>>& streams,
    const nb::object& on_message, const nb::object& on_warning) {
    refuse_forked_process();
    python_call caller;
    std::string result;
    caller.run([&] {
        programs::command_call scope(
            {.on_message = text_observer(caller, on_message), .on_warning = text_observer(caller, on_warning)},
            caller.stop());
        std::vector<gneiss::import_source> sources;
        for (const auto& [edges, split] : streams)
            sources.push_back(edges->source(split == "valid" ? gneiss::edge_split::valid
                    : split == "test"                        ? gneiss::edge_split::test
                                                             : gneiss::edge_split::train));
        programs::command_line line("gneiss-data", "");
        data_tool::add_import(line, std::move(sources));
        programs::command& command = line.at("import");
        set_flags(command, values);
        (void)command.call();
        result = programs::compact(scope.result());
    });
    return result;
}

/// Writes a table of nodes as an import reads it, a chunk at a time.
class node_table_writer {
public:
    /// \param matrix  rows are lists of numbers, also of one column
    node_table_writer(arrow_stream& table, std::filesystem::path directory, const std::string& name, bool matrix)
        : table_(table),
          path_(std::move(directory) / name),
          matrix_(matrix) {
        for (std::size_t i = 0; i < table.columns().size(); ++i) columns_.push_back(i);
        if (columns_.empty())
            throw gneiss::error(gneiss::errc::invalid_format, "has no columns", {.path = table.label()});
        for (const std::size_t i : columns_)
            if (kind(i) == arrow_kind::none)
                throw table.wrong(i, "is " + table.columns()[i].type.name + ": nodes have numbers and text");
        const bool name_column = kind(0) == arrow_kind::integer || kind(0) == arrow_kind::text;
        named_ = columns_.size() > 1 && name_column;
    }

    /// Returns the file.
    std::filesystem::path write(const std::stop_token& stop) {
        const bool any_text = std::ranges::any_of(columns_, [&](auto i) { return kind(i) == arrow_kind::text; });
        if (!named_ && any_text && (matrix_ || columns_.size() > 1))
            throw table_.wrong(0, "is " + table_.columns()[0].type.name + ": features are numbers");
        path_ += named_ || any_text ? ".tsv" : ".npy";
        if (named_ || any_text)
            write_text(stop);
        else if (!matrix_ && columns_.size() == 1 && kind(0) != arrow_kind::floating && kind(0) != arrow_kind::list)
            write_array<std::int64_t>(gneiss::npy_dtype::i64, stop);
        else if (std::ranges::all_of(columns_, [&](auto i) { return narrow(table_.columns()[i].type); }))
            write_array<float>(gneiss::npy_dtype::f32, stop);
        else
            write_array<double>(gneiss::npy_dtype::f64, stop);
        return path_;
    }

private:
    [[nodiscard]] arrow_kind kind(std::size_t column) const { return table_.columns()[column].type.kind; }
    /// Returns whether values are floats of at most 32 bits.
    [[nodiscard]] static bool narrow(const arrow_type& type) {
        if (type.kind == arrow_kind::list) return narrow(type.values[0]);
        return type.kind == arrow_kind::floating && type.format != 'g';
    }
    void next_or_stop(const std::stop_token& stop) const {
        if (stop.stop_requested()) throw gneiss::error(gneiss::errc::canceled, "interrupted", {.path = table_.label()});
    }

    /// Writes lines "node TAB values", with the number of the row if no column names the node.
    void write_text(const std::stop_token& stop) {
        gneiss::plain_file file = gneiss::plain_file::create(path_);
        gneiss::sequential_writer out(file);
        std::string text;
        const auto flush = [&] {
            out.append(std::as_bytes(std::span(text)));
            text.clear();
        };
        while (table_.next(columns_)) {
            for (std::int64_t row = 0; row < table_.rows(); ++row) {
                if (!named_) text += std::to_string(table_.first_row() + row) + "\t";
                for (const std::size_t column : columns_) {
                    if (column != 0) text += '\t';
                    table_.append_text(text, column, row);
                }
                text += '\n';
                if (text.size() < (std::size_t{256} << 10)) continue;
                next_or_stop(stop);
                flush();
            }
        }
        flush();
        file.close();
    }

    template <class T>
    void write_array(gneiss::npy_dtype dtype, const std::stop_token& stop) {
        std::uint64_t width = 0;
        for (const std::size_t column : columns_)
            width += static_cast<std::uint64_t>(table_.columns()[column].type.width);
        std::vector<std::uint64_t> shape;
        if (matrix_ || width > 1) shape.push_back(width);
        gneiss::npy_writer out(path_, dtype, shape);
        std::vector<T> values;
        while (table_.next(columns_)) {
            for (std::int64_t row = 0; row < table_.rows(); ++row) {
                values.clear();
                for (const std::size_t column : columns_)
                    for (std::int64_t i = 0; i < table_.columns()[column].type.width; ++i)
                        if constexpr (std::integral<T>)
                            values.push_back(table_.integer(column, row));
                        else
                            values.push_back(static_cast<T>(table_.number(column, row, i)));
                out.append(std::span<const T>(values));
                if (row % 4096 == 0) next_or_stop(stop);
            }
        }
        out.close();
    }

    arrow_stream& table_;
    std::filesystem::path path_;
    std::vector<std::size_t> columns_;
    bool matrix_, named_ = false;
};

std::string write_node_table(
    const nb::object& source, const std::string& label, const std::string& directory, bool matrix) {
    refuse_forked_process();
    arrow_stream table(source, label);
    python_call caller;
    std::string path;
    caller.run([&] { path = node_table_writer(table, directory, label, matrix).write(caller.stop()).string(); });
    return path;
}

} // namespace

void add_arrow(nb::module_& to) {
    nb::class_<arrow_edges>(to, "ArrowEdges")
        .def(nb::init<const nb::object&, const std::vector<std::string>&, const std::string&>(), nb::arg("source"),
            nb::arg("columns"), nb::arg("label"))
        .def_prop_ro("integers", &arrow_edges::integers)
        .def_prop_ro("width", &arrow_edges::width);
    to.def("import_streams", import_streams, nb::arg("flags"), nb::arg("streams"), nb::arg("on_message").none(),
        nb::arg("on_warning").none());
    to.def("write_node_table", write_node_table, nb::arg("source"), nb::arg("label"), nb::arg("directory"),
        nb::arg("matrix"));
}

} // namespace gneiss_python
