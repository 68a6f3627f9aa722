#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/model/backend/row_kernels.hpp>
#include <gneiss/model/detail/vector_math.hpp>
#include <gneiss/model/kernels.hpp>

namespace gneiss {

/// The kernels of `gnn_backend` over the edges of each segment, on a CPU. A segment belongs to one task and its edges
/// are taken in order, so nothing is atomic and results do not depend on threads. Semantics as there.
template <class T>
struct segment_kernels : row_kernels<T> {
    using row_kernels<T>::add_four;
    using row_kernels<T>::add_scaled;
    using row_kernels<T>::dot;

    static constexpr std::size_t segments_per_task = 64;
    static constexpr std::uint32_t no_winner = std::numeric_limits<std::uint32_t>::max();

    static void segment_shares(const edge_segments& s, std::span<T> out, executor_ref on) {
        parallel_for(on, s.size(), 16 * segments_per_task, [&](std::size_t i, std::size_t end) {
            for (; i < end; ++i) {
                const T share = T{1} / static_cast<T>(s.offsets[i + 1] - s.offsets[i]);
                for (std::size_t place = s.offsets[i]; place < s.offsets[i + 1]; ++place) out[s.edge(place)] = share;
            }
        });
    }

    static void segment_symmetric(const edge_segments& s, std::span<const std::uint32_t> degrees, std::span<T> out, executor_ref on) {
        parallel_for(on, s.size(), 16 * segments_per_task, [&](std::size_t i, std::size_t end) {
            for (; i < end; ++i) {
                const T length = static_cast<T>(s.offsets[i + 1] - s.offsets[i]);
                for (std::size_t place = s.offsets[i]; place < s.offsets[i + 1]; ++place) {
                    const std::size_t e = s.edge(place);
                    out[e] = T{1} / detail::square_root(length * static_cast<T>(degrees[s.rows[e]]));
                }
            }
        });
    }

    static void segment_sum(const edge_segments& s, std::span<const T> weights, std::size_t heads, matrix_view<const T> in,
        matrix_view<T> out, executor_ref on) {
        const std::size_t width = in.columns() / heads;
        parallel_for(on, s.size(), segments_per_task, [&](std::size_t i, std::size_t end) {
            for (; i < end; ++i) {
                T* const to = out[i].data();
                std::fill_n(to, out.columns(), T{0});
                std::size_t place = s.offsets[i];
                const std::size_t last = s.offsets[i + 1];
                for (; place + 4 <= last; place += 4) {
                    std::size_t e[4];
                    const T* row[4];
                    for (std::size_t k = 0; k < 4; ++k) {
                        e[k] = s.edge(place + k);
                        row[k] = in[s.rows[e[k]]].data();
                    }
                    for (std::size_t h = 0; h < heads; ++h) {
                        T w[4];
                        for (std::size_t k = 0; k < 4; ++k) w[k] = weights.empty() ? T{1} : weights[e[k] * heads + h];
                        add_four(w, row, h * width, to + h * width, width);
                    }
                }
                for (; place < last; ++place) {
                    const std::size_t e = s.edge(place);
                    const T* const row = in[s.rows[e]].data();
                    for (std::size_t h = 0; h < heads; ++h)
                        add_scaled(weights.empty() ? T{1} : weights[e * heads + h], row + h * width, to + h * width, width);
                }
            }
        });
    }

    static void segment_max(const edge_segments& s, matrix_view<const T> in, matrix_view<T> out,
        matrix_view<std::uint32_t> winners, executor_ref on) {
        parallel_for(on, s.size(), segments_per_task, [&](std::size_t i, std::size_t end) {
            for (; i < end; ++i) {
                T* __restrict const best = out[i].data();
                std::uint32_t* __restrict const who = winners[i].data();
                const std::size_t n = out.columns(), first = s.offsets[i], last = s.offsets[i + 1];
                std::fill_n(who, n, first == last ? no_winner : static_cast<std::uint32_t>(s.edge(first)));
                if (first == last) std::fill_n(best, n, T{0});
                else std::copy_n(in[s.rows[s.edge(first)]].data(), n, best);
                for (std::size_t place = first + 1; place < last; ++place) {
                    const std::size_t e = s.edge(place);
                    const T* const row = in[s.rows[e]].data();
                    const auto name = static_cast<std::uint32_t>(e);
                    for (std::size_t c = 0; c < n; ++c) {
                        const bool wins = row[c] > best[c];
                        best[c] = wins ? row[c] : best[c];
                        who[c] = wins ? name : who[c];
                    }
                }
            }
        });
    }

    static void segment_max_backward(const edge_segments& s, matrix_view<const T> g, matrix_view<const std::uint32_t> winners,
        matrix_view<T> out, executor_ref on) {
        parallel_for(on, s.size(), segments_per_task, [&](std::size_t i, std::size_t end) {
            for (; i < end; ++i) {
                T* __restrict const to = out[i].data();
                std::fill_n(to, out.columns(), T{0});
                for (std::size_t place = s.offsets[i]; place < s.offsets[i + 1]; ++place) {
                    const auto e = static_cast<std::uint32_t>(s.edge(place));
                    const T* const from = g[s.rows[e]].data();
                    const std::uint32_t* const who = winners[s.rows[e]].data();
                    for (std::size_t c = 0; c < out.columns(); ++c) to[c] += who[c] == e ? from[c] : T{0};
                }
            }
        });
    }

    static void segment_total(const edge_segments& s, std::size_t heads, std::span<const T> values, matrix_view<T> out,
        executor_ref on) {
        parallel_for(on, s.size(), 4 * segments_per_task, [&](std::size_t i, std::size_t end) {
            for (; i < end; ++i) {
                std::fill_n(out[i].data(), heads, T{0});
                for (std::size_t place = s.offsets[i]; place < s.offsets[i + 1]; ++place)
                    add_scaled(T{1}, values.data() + s.edge(place) * heads, out[i].data(), heads);
            }
        });
    }

    static void segment_softmax(const edge_segments& s, std::size_t heads, std::span<T> scores, executor_ref on) {
        parallel_for(on, s.size(), segments_per_task, [&](std::size_t i, std::size_t end) {
            for (; i < end; ++i)
                for (std::size_t h = 0; h < heads; ++h) {
                    const std::size_t first = s.offsets[i] * heads + h, last = s.offsets[i + 1] * heads + h;
                    T top = -std::numeric_limits<T>::infinity(), sum{0};
                    for (std::size_t at = first; at < last; at += heads) top = std::max(top, scores[at]);
                    for (std::size_t at = first; at < last; at += heads)
                        sum += scores[at] = detail::exponential(scores[at] - top);
                    for (std::size_t at = first; at < last; at += heads) scores[at] /= sum;
                }
        });
    }

    static void segment_softmax_backward(const edge_segments& s, std::size_t heads, std::span<const T> y, std::span<T> g,
        executor_ref on) {
        parallel_for(on, s.size(), segments_per_task, [&](std::size_t i, std::size_t end) {
            for (; i < end; ++i)
                for (std::size_t h = 0; h < heads; ++h) {
                    const std::size_t first = s.offsets[i] * heads + h, last = s.offsets[i + 1] * heads + h;
                    T along{0};
                    for (std::size_t at = first; at < last; at += heads) along += y[at] * g[at];
                    for (std::size_t at = first; at < last; at += heads) g[at] = y[at] * (g[at] - along);
                }
        });
    }

    static void edge_dots(const edge_segments& s, std::size_t heads, matrix_view<const T> a, matrix_view<const T> b,
        std::span<T> out, executor_ref on) {
        const std::size_t width = a.columns() / heads;
        parallel_for(on, s.size(), segments_per_task, [&](std::size_t i, std::size_t end) {
            for (; i < end; ++i)
                for (std::size_t place = s.offsets[i]; place < s.offsets[i + 1]; ++place) {
                    const std::size_t e = s.edge(place);
                    const T* const row = b[s.rows[e]].data();
                    for (std::size_t h = 0; h < heads; ++h)
                        out[e * heads + h] = dot(a[i].data() + h * width, row + h * width, width);
                }
        });
    }

    static void edge_scores(const edge_segments& s, std::size_t heads, matrix_view<const T> a, matrix_view<const T> b,
        T slope, std::span<T> out, executor_ref on) {
        parallel_for(on, s.size(), segments_per_task, [&](std::size_t i, std::size_t end) {
            for (; i < end; ++i)
                for (std::size_t place = s.offsets[i]; place < s.offsets[i + 1]; ++place) {
                    const std::size_t e = s.edge(place);
                    const T* const row = b[s.rows[e]].data();
                    for (std::size_t h = 0; h < heads; ++h) {
                        const T x = a(i, h) + row[h];
                        out[e * heads + h] = x > T{0} ? x : slope * x;
                    }
                }
        });
    }

    static void edge_scores_backward(std::size_t, T slope, std::span<const T> y, std::span<T> g, executor_ref on) {
        parallel_for(on, g.size(), 16384, [&](std::size_t k, std::size_t end) {
            for (; k < end; ++k) g[k] *= y[k] > T{0} ? T{1} : slope;
        });
    }

    static void segment_dropout(const dropout_mask& mask, const edge_segments& s, std::size_t heads, std::span<const T> in,
        std::span<T> out, executor_ref on) {
        parallel_for(on, s.size(), segments_per_task, [&](std::size_t i, std::size_t end) {
            for (; i < end; ++i) {
                const std::size_t first = s.offsets[i] * heads, size = (s.offsets[i + 1] - s.offsets[i]) * heads;
                mask.apply(i, in.data() + first, out.data() + first, size);
            }
        });
    }
};

} // namespace gneiss
