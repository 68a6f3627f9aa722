# Installs headers, the CMake package and pkg-config modules. One export set per component, so that a consumer without Eigen
# still gets the core.
# If gneiss is part of another project, the package is installed with that project.
set(gneiss_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gneiss)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT gneiss_headers)
install(TARGETS gneiss EXPORT gneiss-core)
install(EXPORT gneiss-core NAMESPACE gneiss:: DESTINATION ${gneiss_package_dir} COMPONENT gneiss_headers)
foreach(component ${GNEISS_COMPONENTS})
  install(TARGETS gneiss_${component} EXPORT gneiss-${component})
  install(EXPORT gneiss-${component} NAMESPACE gneiss:: DESTINATION ${gneiss_package_dir} COMPONENT gneiss_headers)
endforeach()
# The library has its own install component: header-only users need gneiss_headers alone.
set(gneiss_compiled_needs "")
if(TARGET gneiss_compiled)
  list(TRANSFORM compiled_needs REPLACE "^gneiss_" "gneiss::" OUTPUT_VARIABLE gneiss_compiled_needs)
  install(TARGETS gneiss_compiled gneiss_compiled_base EXPORT gneiss-compiled
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT gneiss_compiled)
  install(EXPORT gneiss-compiled NAMESPACE gneiss:: DESTINATION ${gneiss_package_dir} COMPONENT gneiss_compiled)
endif()

# The modules find the prefix from their own place, so that it may be moved.
set(gneiss_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  set(gneiss_pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH gneiss_pc_prefix /${gneiss_pc_dir} /)
  string(REGEX REPLACE "/$" "" gneiss_pc_prefix "\${pcfiledir}/${gneiss_pc_prefix}")
endif()
foreach(dir INCLUDEDIR LIBDIR)
  set(gneiss_pc_${dir} "\${prefix}")
  cmake_path(APPEND gneiss_pc_${dir} ${CMAKE_INSTALL_${dir}}) # an absolute path replaces the prefix
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/cmake/gneiss.pc.in ${PROJECT_BINARY_DIR}/gneiss.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gneiss.pc DESTINATION ${gneiss_pc_dir} COMPONENT gneiss_headers)
if(TARGET gneiss_compiled)
  set(gneiss_pc_requires eigen3 nlohmann_json zlib)
  set(gneiss_pc_flags -DGNEISS_COMPILED=1)
  if(TARGET gneiss_uring)
    list(APPEND gneiss_pc_requires liburing)
    list(APPEND gneiss_pc_flags -DGNEISS_HAS_URING=1)
  endif()
  if(TARGET gneiss_zstd)
    list(APPEND gneiss_pc_requires libzstd)
    list(APPEND gneiss_pc_flags -DGNEISS_HAS_ZSTD=1)
  endif()
  list(JOIN gneiss_pc_requires " " gneiss_pc_requires)
  list(JOIN gneiss_pc_flags " " gneiss_pc_flags)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/gneiss-compiled.pc.in ${PROJECT_BINARY_DIR}/gneiss-compiled.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/gneiss-compiled.pc DESTINATION ${gneiss_pc_dir} COMPONENT gneiss_compiled)
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/gneissConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/gneissConfig.cmake INSTALL_DESTINATION ${gneiss_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gneissConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/gneissConfig.cmake ${PROJECT_BINARY_DIR}/gneissConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindXxHash.cmake ${PROJECT_SOURCE_DIR}/cmake/FindUring.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindMetis.cmake ${PROJECT_SOURCE_DIR}/cmake/FindZstd.cmake
        DESTINATION ${gneiss_package_dir} COMPONENT gneiss_headers)
