# Shortens the build of BoringSSL where nothing that ships is built. boring-sys passes this file to CMake as a toolchain file, the one place
# where a build script lets its user change a project; it changes nothing of a release, whose build type is Release or RelWithDebInfo.
#
# Half of the time goes into headers, which its 300 files read again and again: they are compiled once. Debug information, which the
# project always asks for, is left out.
if(CMAKE_BUILD_TYPE MATCHES "^Rel" OR CMAKE_SOURCE_DIR MATCHES "/CMakeFiles/")
  return()
endif()

add_compile_options(-g0)

function(leafseal_precompile target)
  if(TARGET ${target})
    list(TRANSFORM ARGN REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:${CMAKE_SOURCE_DIR}/\\1>" OUTPUT_VARIABLE headers)
    target_precompile_headers(${target} PRIVATE ${headers})
  endif()
endfunction()

# CMake reads a toolchain file more than once, and before the project has targets.
if(NOT LEAFSEAL_IS_DEFERRED)
  set(LEAFSEAL_IS_DEFERRED ON)
  cmake_language(DEFER CALL leafseal_precompile crypto crypto/internal.h crypto/mem_internal.h include/openssl/x509.h)
  cmake_language(DEFER CALL leafseal_precompile ssl ssl/internal.h)
endif()
