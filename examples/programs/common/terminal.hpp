#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace programs {

/// Columns of the terminal behind `descriptor`; 80 where it does not tell.
[[nodiscard]] unsigned terminal_width(int descriptor);

/// The first `width` characters of `text` (UTF-8, one column each).
[[nodiscard]] std::string_view truncated(std::string_view text, std::size_t width);

/// Where progress goes. Tests replace the parts.
struct progress_output {
    bool quiet = false;
    bool live = false;                 ///< a terminal: one line, rewritten
    std::function<unsigned()> width{}; ///< asked at each rewrite, so that a resized window is followed
    std::function<void(std::string_view)> write{};
    std::function<double()> clock{}; ///< seconds, monotonic

    static constexpr double live_seconds = 0.2, plain_seconds = 10; ///< least time between two lines
};

/// stderr and a steady clock.
[[nodiscard]] progress_output progress_on_stderr(bool quiet = false);

/// Tells how work goes on: one live line on a terminal (at most 5 times a second), a line every 10 s elsewhere, nothing
/// when quiet. Thread-safe. Ends its live line when it goes out of scope.
class progress {
public:
    explicit progress(progress_output output);
    explicit progress(bool quiet = false) : progress(progress_on_stderr(quiet)) {}
    ~progress();
    progress(const progress&) = delete;
    progress& operator=(const progress&) = delete;

    /// Shows what `line` returns, when it is time to; `line` is not called otherwise. Cheap enough for every batch.
    void update(const std::function<std::string()>& line);
    /// A line that stays, above the live one. Not shown when quiet.
    void say(std::string_view text);
    /// Removes the live line, so that results can follow.
    void clear();

private:
    void erase_locked();

    progress_output output_;
    std::mutex mutex_;
    std::string shown_; ///< the live line on the screen
    double next_ = 0;
};

enum class align { left, right };

/// Rows under titles, in plain ASCII, columns aligned:
///
///     stage    seconds  share
///     -----    -------  -----
///     compute     12.3  61.5%
class table {
public:
    struct column {
        std::string title;
        align side = align::right;
    };
    explicit table(std::vector<column> columns) : columns_(std::move(columns)) {}

    /// Missing cells are empty; cells beyond the columns are an error (`std::invalid_argument`).
    void add(std::vector<std::string> cells);
    [[nodiscard]] bool empty() const noexcept { return rows_.empty(); }
    /// Ends in a line break. No line has blanks at its end.
    [[nodiscard]] std::string str() const;

private:
    std::vector<column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

} // namespace programs
