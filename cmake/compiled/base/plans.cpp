// Definitions of gneiss::compiled: the plan of a run and its choice.
#include <gneiss/train/detail/choose_plan.hpp>
