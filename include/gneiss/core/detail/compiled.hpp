// SPDX-License-Identifier: Apache-2.0
// GNEISS_INLINE marks functions that the target gneiss::compiled defines once. Header-only (the default): they are
// inline, and the header that declares them includes the one that defines them. With GNEISS_COMPILED, which the target
// sets, it does not: programs compile neither these definitions nor their dependencies.
#pragma once

#ifdef GNEISS_COMPILED
#define GNEISS_INLINE
#else
#define GNEISS_INLINE inline
#endif
