// SPDX-License-Identifier: Apache-2.0
// Marks functions that the target gneiss::compiled defines once. Header-only, the default: they are inline, and the header that
// declares them includes the one that defines them. With GNEISS_COMPILED, which the target sets, it does not: programs
// neither compile these definitions nor see what only they need.
#pragma once

#ifdef GNEISS_COMPILED
#define GNEISS_INLINE
#else
#define GNEISS_INLINE inline
#endif
