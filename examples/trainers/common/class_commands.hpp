#pragma once

#include <functional>
#include <memory>
#include <string>

#include <gneiss/io/dataset.hpp>

#include "common/command_line.hpp"
#include "trainers/common/graph_options.hpp"
#include "trainers/common/options.hpp"

namespace trainers {

/// The flags of a run of a design that tells classes of nodes.
class class_options {
public:
    virtual ~class_options() = default;
    virtual void add_to(programs::command& to) = 0;
    virtual void resolve(const gneiss::dataset& data) = 0;
    [[nodiscard]] virtual const run_options& run() const = 0;
    [[nodiscard]] virtual const graph_options& graph() const = 0;
};

template <class Options>
class class_options_of final : public class_options {
public:
    void add_to(programs::command& to) override { how_.add_to(to); }
    void resolve(const gneiss::dataset& data) override { how_.resolve(data); }
    [[nodiscard]] const run_options& run() const override { return how_; }
    [[nodiscard]] const graph_options& graph() const override { return how_; }

private:
    Options how_;
};

/// A design that tells classes of nodes from given features, as far as reading its runs goes.
struct class_design {
    std::string program;
    std::function<std::unique_ptr<class_options>()> options;
};

/// Where a run keeps its dataset in partitions of its own, if it does.
inline constexpr const char* partitioned_name = "graph";

/// Adds the commands that read a run, by all neighbours of the whole graph: `eval`, `predict`, `export`.
void add_class_commands(programs::command_line& to, const class_design& of);
/// The same for a program whose flags of `train` are `Options`.
template <class Options>
void add_class_commands(programs::command_line& to, const std::string& program) {
    add_class_commands(to, class_design{program, [] { return std::make_unique<class_options_of<Options>>(); }});
}

} // namespace trainers
