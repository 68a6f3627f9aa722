// SPDX-License-Identifier: Apache-2.0
#include "kit/run/rate_options.hpp"

#include <algorithm>

namespace trainers {

namespace {

constexpr double usual_decay = 0.1;
constexpr std::uint64_t usual_patience = 5;

} // namespace

void rate_options::add_schedule(programs::command& to, const std::string& default_schedule) {
    to.option("lr-schedule", lr_schedule,
          "schedule of learning rates over epochs; plateau: lower after validations without improvement")
        .choices({"constant", "linear", "cosine", "step", "plateau"})
        .default_text(default_schedule);
    to.option("lr-warmup", lr_warmup, "epochs of linear warm-up").value_name("N");
    to.option("lr-decay", lr_decay, "factor of the learning rate at each step of step and plateau")
        .range(1e-6, 1)
        .default_text("0.1");
    to.option("lr-patience", lr_patience, "validations without improvement before plateau lowers the rate")
        .range(1)
        .default_text("5");
}

void rate_options::resolve_schedule(const std::string& default_schedule, bool validates) {
    if (!lr_schedule) lr_schedule = default_schedule;
    const bool plateau = *lr_schedule == "plateau";
    if (lr_patience && !plateau) throw programs::usage_error("--lr-patience is for --lr-schedule plateau");
    if (lr_decay && !plateau && *lr_schedule != "step")
        throw programs::usage_error("--lr-decay is for --lr-schedule step or plateau");
    if (plateau && !validates)
        throw programs::usage_error(
            "--lr-schedule plateau needs validations: a validation split, without --no-eval and --eval-every 0");
}

double rate_options::rate_factor(std::uint64_t epoch, std::uint64_t epochs) const {
    gneiss::schedule schedule = gneiss::make_schedule(*lr_schedule);
    schedule.warmup = lr_warmup;
    schedule.decay = lr_decay.value_or(usual_decay);
    return schedule.factor(epoch, epochs);
}

std::optional<gneiss::plateau_decay> rate_options::plateau() const {
    if (*lr_schedule != "plateau") return std::nullopt;
    return gneiss::plateau_decay(lr_decay.value_or(usual_decay), lr_patience.value_or(usual_patience));
}

} // namespace trainers
