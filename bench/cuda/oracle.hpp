#pragma once

// cuBLASLt and cuSPARSE as references for the kernels, loaded on request and never linked. They are not a fallback: the
// kernels accept every shape.

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/float16.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>

#if !defined(GNEISS_SIMT) && __has_include(<cublasLt.h>) && __has_include(<cusparse.h>)
#define GNEISS_BENCH_ORACLE 1
#include <cublasLt.h>
#include <cusparse.h>
#include <dlfcn.h>
#else
#define GNEISS_BENCH_ORACLE 0
#endif

namespace gpu_bench {

using namespace gneiss;

/// A sparse matrix [rows, columns] by rows, in device memory.
template <class T>
struct sparse_rows {
    std::uint32_t rows = 0, columns = 0, edges = 0;
    const std::uint32_t *offsets = nullptr, *of_edge = nullptr;
    const T* values = nullptr;
};

#if GNEISS_BENCH_ORACLE

/// An optional shared library.
class shared_library {
public:
    /// Throws `errc::unsupported` with the name of the missing file.
    explicit shared_library(const char* file) : file_(file), handle_(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
        if (handle_ == nullptr)
            if (const std::string there = std::string(GNEISS_CUDA_LIBRARIES "/") + file;
                (handle_ = dlopen(there.c_str(), RTLD_NOW | RTLD_LOCAL)) == nullptr)
                throw error(errc::unsupported,
                    std::string(file) + " was not found, neither by the loader nor in " GNEISS_CUDA_LIBRARIES);
    }
    shared_library(const shared_library&) = delete;
    shared_library& operator=(const shared_library&) = delete;
    ~shared_library() { dlclose(handle_); }

    template <class F>
    [[nodiscard]] F* find(const char* name) const {
        void* const found = dlsym(handle_, name);
        if (found == nullptr) throw error(errc::unsupported, std::string(file_) + " has no " + name);
        return reinterpret_cast<F*>(found);
    }

private:
    const char* file_;
    void* handle_;
};

#define GNEISS_ORACLE_TEXT(x) #x
#define GNEISS_ORACLE_FILE(name, version) "lib" name ".so." GNEISS_ORACLE_TEXT(version)
/// Loads a function of `library_`, with the type of its header.
#define GNEISS_ORACLE_FUNCTION(member, function)                                                                       \
    decltype(&function) member = library_.find<decltype(function)>(#function)

template <class T>
inline constexpr cudaDataType_t oracle_type = std::is_same_v<std::remove_const_t<T>, float> ? CUDA_R_32F : CUDA_R_16BF;

/// out = a · b of row-major matrices, by cuBLASLt's first choice; with a bias and ReLU, fused.
class cublaslt {
public:
    cublaslt() {
        check(create_(&handle_));
        workspace_ = cuda::device_buffer<std::byte>(budget_, "cuBLASLt's workspace", workspace);
    }
    cublaslt(const cublaslt&) = delete;
    cublaslt& operator=(const cublaslt&) = delete;
    ~cublaslt() { static_cast<void>(destroy_(handle_)); }

    /// A product of one shape, ready to run. `a` [m, k] or, transposed, [k, m]; b [k, n] or, transposed, [n, k].
    class product {
    public:
        template <class T, class Out>
        product(const cublaslt& by, std::uint32_t m, std::uint32_t n, std::uint32_t k, cuda::rows_view<const T> a,
            bool a_across, cuda::rows_view<const T> b, bool b_across, cuda::rows_view<Out> out,
            const Out* bias = nullptr, bool relu = false)
            : by_(by),
              a_(a.data),
              b_(b.data),
              out_(out.data) {
            check(by.describe_(&options_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
            // column-major, these are the transposes: outᵀ = bᵀ · aᵀ
            const cublasOperation_t of_b = b_across ? CUBLAS_OP_T : CUBLAS_OP_N,
                                    of_a = a_across ? CUBLAS_OP_T : CUBLAS_OP_N;
            check(by.set_(options_, CUBLASLT_MATMUL_DESC_TRANSA, &of_b, sizeof of_b));
            check(by.set_(options_, CUBLASLT_MATMUL_DESC_TRANSB, &of_a, sizeof of_a));
            if (bias != nullptr) {
                const cublasLtEpilogue_t then = relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
                check(by.set_(options_, CUBLASLT_MATMUL_DESC_EPILOGUE, &then, sizeof then));
                check(by.set_(options_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
            }
            check(by.layout_(&left_, oracle_type<T>, b_across ? k : n, b_across ? n : k, b.stride));
            check(by.layout_(&right_, oracle_type<T>, a_across ? m : k, a_across ? k : m, a.stride));
            check(by.layout_(&result_, oracle_type<Out>, n, m, out.stride));
            cublasLtMatmulPreference_t wish = nullptr;
            check(by.preference_(&wish));
            check(by.set_preference_(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
            int found = 0;
            const cublasStatus_t status =
                by.heuristic_(by.handle_, options_, left_, right_, result_, result_, wish, 1, &algorithm_, &found);
            static_cast<void>(by.forget_preference_(wish));
            check(status);
            if (found == 0) throw error(errc::unsupported, "cuBLASLt has no algorithm for this product");
        }
        product(const product&) = delete;
        product& operator=(const product&) = delete;
        ~product() {
            for (const cublasLtMatrixLayout_t one : {left_, right_, result_})
                static_cast<void>(by_.forget_layout_(one));
            static_cast<void>(by_.forget_(options_));
        }

        void operator()(cudaStream_t in) const {
            const float one = 1, zero = 0;
            check(by_.matmul_(by_.handle_, options_, &one, b_, left_, a_, right_, &zero, out_, result_, out_, result_,
                &algorithm_.algo, by_.workspace_.data(), workspace, in));
        }

    private:
        const cublaslt& by_;
        const void *a_, *b_;
        void* out_;
        cublasLtMatmulDesc_t options_ = nullptr;
        cublasLtMatrixLayout_t left_ = nullptr, right_ = nullptr, result_ = nullptr;
        cublasLtMatmulHeuristicResult_t algorithm_{};
    };

private:
    static constexpr std::size_t workspace = std::size_t{32} << 20;

    static void check(cublasStatus_t status) {
        if (status != CUBLAS_STATUS_SUCCESS)
            throw error(errc::io, "cuBLASLt failed with status " + std::to_string(static_cast<int>(status)));
    }

    shared_library library_{GNEISS_ORACLE_FILE("cublasLt", CUBLAS_VER_MAJOR)};
    GNEISS_ORACLE_FUNCTION(create_, cublasLtCreate);
    GNEISS_ORACLE_FUNCTION(destroy_, cublasLtDestroy);
    GNEISS_ORACLE_FUNCTION(matmul_, cublasLtMatmul);
    GNEISS_ORACLE_FUNCTION(heuristic_, cublasLtMatmulAlgoGetHeuristic);
    GNEISS_ORACLE_FUNCTION(describe_, cublasLtMatmulDescCreate);
    GNEISS_ORACLE_FUNCTION(set_, cublasLtMatmulDescSetAttribute);
    GNEISS_ORACLE_FUNCTION(forget_, cublasLtMatmulDescDestroy);
    GNEISS_ORACLE_FUNCTION(layout_, cublasLtMatrixLayoutCreate);
    GNEISS_ORACLE_FUNCTION(forget_layout_, cublasLtMatrixLayoutDestroy);
    GNEISS_ORACLE_FUNCTION(preference_, cublasLtMatmulPreferenceCreate);
    GNEISS_ORACLE_FUNCTION(set_preference_, cublasLtMatmulPreferenceSetAttribute);
    GNEISS_ORACLE_FUNCTION(forget_preference_, cublasLtMatmulPreferenceDestroy);
    cublasLtHandle_t handle_ = nullptr;
    memory_budget budget_;
    mutable cuda::device_buffer<std::byte> workspace_;
};

/// out = sparse · in of row-major rows, by cuSPARSE's algorithm for that layout.
class cusparse {
public:
    cusparse() { check(create_(&handle_)); }
    cusparse(const cusparse&) = delete;
    cusparse& operator=(const cusparse&) = delete;
    ~cusparse() { static_cast<void>(destroy_(handle_)); }

    /// A product ready to run.
    class product {
    public:
        template <class T>
        product(const cusparse& by, const sparse_rows<T>& by_rows, cuda::rows_view<const T> in, cuda::rows_view<T> out)
            : by_(by) {
            check(by.sparse_(&sparse_, by_rows.rows, by_rows.columns, by_rows.edges,
                const_cast<std::uint32_t*>(by_rows.offsets), const_cast<std::uint32_t*>(by_rows.of_edge),
                const_cast<T*>(by_rows.values), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                oracle_type<T>));
            check(by.dense_(&in_, by_rows.columns, in.columns, in.stride, const_cast<T*>(in.data), oracle_type<T>,
                CUSPARSE_ORDER_ROW));
            check(
                by.dense_(&out_, by_rows.rows, out.columns, out.stride, out.data, oracle_type<T>, CUSPARSE_ORDER_ROW));
            std::size_t bytes = 0;
            check(by.buffer_size_(
                by.handle_, plain, plain, &one, sparse_, in_, &zero, out_, CUDA_R_32F, algorithm, &bytes));
            buffer_ = cuda::device_buffer<std::byte>(budget_, "cuSPARSE's buffer", bytes + 1);
            check(by.prepare_(
                by.handle_, plain, plain, &one, sparse_, in_, &zero, out_, CUDA_R_32F, algorithm, buffer_.data()));
            cuda::synchronize_device();
        }
        product(const product&) = delete;
        product& operator=(const product&) = delete;
        ~product() {
            static_cast<void>(by_.forget_dense_(in_));
            static_cast<void>(by_.forget_dense_(out_));
            static_cast<void>(by_.forget_sparse_(sparse_));
        }

        void operator()(cudaStream_t stream) {
            check(by_.set_stream_(by_.handle_, stream));
            check(by_.multiply_(
                by_.handle_, plain, plain, &one, sparse_, in_, &zero, out_, CUDA_R_32F, algorithm, buffer_.data()));
        }

    private:
        static constexpr cusparseOperation_t plain = CUSPARSE_OPERATION_NON_TRANSPOSE;
        static constexpr cusparseSpMMAlg_t algorithm = CUSPARSE_SPMM_CSR_ALG2;
        static constexpr float one = 1, zero = 0;

        const cusparse& by_;
        cusparseSpMatDescr_t sparse_ = nullptr;
        cusparseDnMatDescr_t in_ = nullptr, out_ = nullptr;
        memory_budget budget_;
        cuda::device_buffer<std::byte> buffer_;
    };

private:
    static void check(cusparseStatus_t status) {
        if (status != CUSPARSE_STATUS_SUCCESS)
            throw error(errc::io, "cuSPARSE failed with status " + std::to_string(static_cast<int>(status)));
    }

    shared_library library_{GNEISS_ORACLE_FILE("cusparse", CUSPARSE_VER_MAJOR)};
    GNEISS_ORACLE_FUNCTION(create_, cusparseCreate);
    GNEISS_ORACLE_FUNCTION(destroy_, cusparseDestroy);
    GNEISS_ORACLE_FUNCTION(set_stream_, cusparseSetStream);
    GNEISS_ORACLE_FUNCTION(sparse_, cusparseCreateCsr);
    GNEISS_ORACLE_FUNCTION(forget_sparse_, cusparseDestroySpMat);
    GNEISS_ORACLE_FUNCTION(dense_, cusparseCreateDnMat);
    GNEISS_ORACLE_FUNCTION(forget_dense_, cusparseDestroyDnMat);
    GNEISS_ORACLE_FUNCTION(buffer_size_, cusparseSpMM_bufferSize);
    GNEISS_ORACLE_FUNCTION(prepare_, cusparseSpMM_preprocess);
    GNEISS_ORACLE_FUNCTION(multiply_, cusparseSpMM);
    cusparseHandle_t handle_ = nullptr;
};

#else

/// Replacement if they are unavailable: never ready.
struct never_ready {
    struct product {
        template <class... Arguments>
        explicit product(const never_ready&, const Arguments&...) {}
        void operator()(cudaStream_t) const {}
    };
};
using cublaslt = never_ready;
using cusparse = never_ready;

#endif

/// The libraries that this machine has.
class oracle {
public:
    explicit oracle(bool asked_for = true) {
        if (!asked_for) return;
#if GNEISS_BENCH_ORACLE
        load(products_);
        load(sums_);
#else
        missing_ = {"cuBLASLt and cuSPARSE: this program was built without them"};
#endif
    }
    /// Null if missing.
    [[nodiscard]] const cublaslt* products() const noexcept { return products_.get(); }
    [[nodiscard]] const cusparse* sums() const noexcept { return sums_.get(); }
    /// Missing libraries, with reasons.
    [[nodiscard]] const std::vector<std::string>& missing() const noexcept { return missing_; }

private:
    template <class L>
    void load(std::unique_ptr<L>& to) {
        try {
            to = std::make_unique<L>();
        } catch (const error& why) {
            missing_.emplace_back(why.what());
        }
    }

    std::unique_ptr<cublaslt> products_;
    std::unique_ptr<cusparse> sums_;
    std::vector<std::string> missing_;
};

} // namespace gpu_bench
