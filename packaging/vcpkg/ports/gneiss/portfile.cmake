# Not run here: written from the documentation of vcpkg. An overlay port of the tree that it is part of:
#   vcpkg install gneiss --overlay-ports=packaging/vcpkg/ports
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)
set(VCPKG_BUILD_TYPE release) # headers alone

vcpkg_check_features(OUT_FEATURE_OPTIONS options
  INVERTED_FEATURES
    eigen CMAKE_DISABLE_FIND_PACKAGE_Eigen3
    io    CMAKE_DISABLE_FIND_PACKAGE_nlohmann_json
    io    CMAKE_DISABLE_FIND_PACKAGE_ZLIB
    uring CMAKE_DISABLE_FIND_PACKAGE_Uring
    metis CMAKE_DISABLE_FIND_PACKAGE_Metis
    yaml  CMAKE_DISABLE_FIND_PACKAGE_yaml-cpp
    zstd  CMAKE_DISABLE_FIND_PACKAGE_Zstd
)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    ${options}
    -DGNEISS_TESTS=OFF -DGNEISS_EXAMPLES=OFF -DGNEISS_BENCH=OFF -DGNEISS_CCACHE=OFF -DGNEISS_COMPILED=OFF -DGNEISS_CUDA=OFF
    -DGNEISS_INSTALL=ON
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/gneiss)
vcpkg_fixup_pkgconfig()

file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
