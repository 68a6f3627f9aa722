#include "options.hpp"

#include <algorithm>


namespace hanoi {

void options::add_to(programs::command& to) {
    add_training(to);
    to.group("Macro-batches");
    to.option("partitioner", partitioner, "given: the dataset's partitions; random: others; file: --assignment").choices({"given", "random", "file"}).default_text("given where a partitioner made them, else random");
    to.option("assignment", assignment, "integers [nodes], .npy: the partition of each node, as gneiss-data partition writes them").value_name("FILE");
    to.option("partitions", partitions, "of --partitioner random").range(1, 16383).default_text("the dataset's");
    to.option("hubs", hubs, "integers, .npy: nodes that stay in memory all run; 0: none").value_name("FILE|0").default_text("the dataset's");
    to.option("macro", macro, "partitions that come and go together").range(1).default_text("as many as memory holds twice");
    to.option("reuse", reuse, "passes over a macro-batch at most, while the next one is on its way; 1: never again").range(1, 4);
    to.option("reuse-plan", reuse_plan, "passes as an earlier run's reuse.json recorded them, whatever the disk does").value_name("FILE");
    add_budget(to);
    add_disk(to);
    add_execution(to);
    add_evaluation(to);
    add_output(to, "gneiss-hanoi");
}

void options::resolve(const gneiss::dataset& data) {
    class_options::resolve(data);
    const gneiss::dataset_manifest& graph = data.manifest();
    if (!partitioner) partitioner = assignment ? "file" : graph.partition_sizes.empty() || partitions ? "random" : "given";
    if (assignment.has_value() != (*partitioner == "file")) throw programs::usage_error("--assignment FILE.npy is for --partitioner file, which needs it");
    if (partitions && *partitioner != "random") throw programs::usage_error("--partitions is for --partitioner random: others say how many there are");
    if (!partitions && *partitioner == "random") partitions = std::max(graph.partitions - graph.pinned, 1U);
}

} // namespace hanoi
