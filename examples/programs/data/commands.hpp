// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/io/import/options.hpp>

#include "kit/cli/command_line.hpp"
#include "kit/cli/dataset_path.hpp"
#include "kit/cli/machine.hpp"
#include "kit/cli/signals.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/cli/units.hpp"

/// The dataset tool: one function per command, which adds it to the program.
namespace data_tool {

inline constexpr const char* program = "gneiss-data";
inline constexpr const char* purpose = "Makes datasets for the trainers, and shows, checks and exports them.";

/// Adds all commands.
void add_commands(programs::command_line& to);

/// Memory of a program without its data: code, stacks, allocator, buffers of open files [bytes].
inline constexpr std::uint64_t program_bytes = std::uint64_t{16} << 20;

/// Flags of every command.
struct common_flags {
    std::optional<programs::byte_size> memory{};
    std::uint64_t threads = 0;
    std::uint64_t seed = 0;
    bool json = false, force = false, quiet = false;

    void add_to(programs::command& to);
    /// Returns the working memory [bytes]: as given, else half of the free memory, at most 4 GiB.
    [[nodiscard]] std::uint64_t memory_bytes() const;
    [[nodiscard]] unsigned thread_count() const;
};

/// Flags of the commands that make a dataset from edges.
struct output_flags {
    std::filesystem::path out{};
    std::uint32_t partitions = 0;
    std::optional<std::string> task{};

    void add_to(programs::command& to);
    [[nodiscard]] std::optional<gneiss::dataset_task> chosen_task() const;
};

/// Flags of the storage of node features.
struct feature_flags {
    std::optional<std::string> feature_type{};
    std::uint64_t project = 0;

    void add_to(programs::command& to);
    void apply(gneiss::import_node_attributes& data) const;
};

/// Parses "train,valid,test" of --fractions. Throws usage_error.
[[nodiscard]] std::array<double, 3> parse_fractions(const std::vector<double>& values);

/// True if the path lies in the directory, or is it.
[[nodiscard]] bool is_inside(const std::filesystem::path& path, const std::filesystem::path& directory);

/// Makes all checks that are possible before the work; throws usage_error, gneiss::error.
/// \param inputs  files that the command reads: none may be in a dataset that it replaces
void check_output(
    const output_flags& output, const common_flags& common, const std::vector<std::filesystem::path>& inputs = {});

/// Makes the same checks for commands that write a file. Throws usage_error.
void check_file_out(const std::filesystem::path& out, const common_flags& common);

/// Makes the directory `out` by `make(path)`: next to an existing one, which it then replaces.
void make_or_replace(const std::filesystem::path& out, const std::function<void(const std::filesystem::path&)>& make);

/// Imports with progress on stderr and the result on stdout (`--json`: one object), and returns the exit code.
/// `source_memory` [bytes] is the memory of the sources in addition to the import.
programs::exit_code run_import(gneiss::import_options options, const output_flags& output, const common_flags& common,
    std::uint64_t source_memory = 0);

/// Returns the flags that change the result, as text for the manifest.
[[nodiscard]] std::string provenance_of(const programs::command& command);

using programs::check_dataset;

/// \param streams  edges in place of the flag's sources: text of two or three fields between tabs, without comments
void add_import(programs::command_line& to, std::vector<gneiss::import_source> streams = {});
void add_get(programs::command_line& to);
void add_generate(programs::command_line& to);
void add_expand(programs::command_line& to);
void add_partition(programs::command_line& to);
void add_hubs(programs::command_line& to);
void add_reorder(programs::command_line& to);
void add_sample(programs::command_line& to);
void add_inspect(programs::command_line& to);
void add_verify(programs::command_line& to);
void add_export(programs::command_line& to);
void add_convert(programs::command_line& to);
void add_doctor(programs::command_line& to);
void add_plan(programs::command_line& to);

} // namespace data_tool
