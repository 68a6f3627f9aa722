// SPDX-License-Identifier: Apache-2.0
#include "kit/cli/process_sampler.hpp"

#include <algorithm>
#include <chrono>

#include "kit/cli/machine.hpp"

namespace programs {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

} // namespace

std::vector<time_sample> merged_pairs(const std::vector<time_sample>& samples) {
    std::vector<time_sample> half;
    double before = 0;
    for (std::size_t i = 0; i + 1 < samples.size(); i += 2) {
        const time_sample &a = samples[i], &b = samples[i + 1];
        const double first = a.seconds - before, second = b.seconds - a.seconds, both = first + second;
        const auto mean = [&](double x, double y) { return both > 0 ? (x * first + y * second) / both : (x + y) / 2; };
        half.push_back({b.seconds, mean(a.busy_share, b.busy_share), mean(a.wait_share, b.wait_share),
            mean(a.read_rate, b.read_rate), mean(a.write_rate, b.write_rate), std::max(a.rss_bytes, b.rss_bytes),
            mean(a.fault_rate, b.fault_rate), mean(a.evaluate_share, b.evaluate_share),
            mean(a.save_share, b.save_share)});
        before = b.seconds;
    }
    if (samples.size() % 2 == 1) half.push_back(samples.back());
    return half;
}

run_sampler::run_sampler(std::function<activity()> totals, double workers, double every_seconds)
    : totals_(std::move(totals)),
      workers_(workers),
      every_(every_seconds),
      began_(now()),
      last_(totals_()),
      last_faults_(major_page_faults()) {
    thread_ = std::jthread([this](const std::stop_token& stopped) {
        std::unique_lock lock(mutex_);
        while (!stopped.stop_requested()) {
            wake_.wait_for(lock, stopped, std::chrono::duration<double>(every_), [] { return false; });
            try {
                look();
            } catch (...) { // for example no memory for a sample: the run matters more
                ++missed_;
            }
        }
    });
}

void run_sampler::look() {
    const activity total = totals_();
    const double time = now() - began_, span = time - last_time_;
    if (span <= 0) return;
    const std::uint64_t faults = major_page_faults();
    const auto share_of = [](double seconds, double all) { return std::clamp(seconds / all, 0.0, 1.0); };
    const auto share = [&](double seconds) { return share_of(seconds, span * workers_); };
    const auto rate = [&](std::uint64_t from, std::uint64_t to) {
        return to > from ? static_cast<double>(to - from) / span : 0.0;
    };
    samples_.push_back(
        {time, share(total.compute_seconds - last_.compute_seconds), share(total.wait_seconds - last_.wait_seconds),
            rate(last_.read_bytes, total.read_bytes), rate(last_.write_bytes, total.write_bytes), current_rss(),
            rate(last_faults_, faults), share_of(total.evaluate_seconds - last_.evaluate_seconds, span),
            share_of(total.save_seconds - last_.save_seconds, span)});
    last_ = total;
    last_faults_ = faults;
    last_time_ = time;
    if (samples_.size() >= most_samples) {
        samples_ = merged_pairs(samples_);
        every_ *= 2;
    }
}

void run_sampler::stop() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    thread_.join();
}

std::uint64_t run_sampler::missed() const {
    const std::scoped_lock lock(mutex_);
    return missed_;
}

std::vector<time_sample> run_sampler::samples() const {
    const std::scoped_lock lock(mutex_);
    return samples_;
}

} // namespace programs
