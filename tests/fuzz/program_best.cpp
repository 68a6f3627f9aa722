#include "fuzz/target.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include <support/temporary_directory.hpp>

#include "kit/report/best_state.hpp"

namespace test_fuzz_program_best {

using namespace gneiss;

/// A best state with a right checksum: any metrics, and any name of its rows.
GNEISS_FUZZ_TARGET("program_best", bytes) {
    static const test::temporary_directory at;
    const std::string_view text = fuzz::text_of(bytes);
    const std::size_t end = std::min(text.find('\n'), text.size());
    checkpoint state;
    state.put_text("rows", text.substr(0, end));
    state.put_text("metrics", text.substr(std::min(end + 1, text.size())));
    save_checkpoint(at / "checkpoint.bin", state);
    std::optional<programs::kept_state> kept;
    if (fuzz::accepted([&] { kept = programs::best_state_in(at / "checkpoint.bin", 1 << 20); }))
        fuzz::property(kept.has_value(), "a state with metrics is one");
    std::filesystem::path rows;
    if (!fuzz::accepted([&] { rows = programs::rows_of(state, at.path(), "rows.bin"); })) return;
    fuzz::property(
        rows.parent_path() == at.path() && rows.filename() != ".." && rows.filename().string().starts_with("rows"),
        "rows are a file of the directory");
}

} // namespace test_fuzz_program_best
