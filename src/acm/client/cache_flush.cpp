// SPDX-License-Identifier: BSD-3-Clause
#include "acm/client/cache_flush.hpp"

#include <poll.h>
#include <unistd.h>

#include "acm/driver/node_directory.hpp"
#include "acm/driver/node_lock.hpp"
#include "acm/driver/service_message.hpp"
#include "acm/driver/service_socket.hpp"
#include "base/clock.hpp"

namespace wireup::acm {
namespace {

constexpr int kLookMs = 5;

Result<> ask_resolver_to_flush(const std::string& socket_path) {
  const auto socket = connect_to(socket_path);
  if (!socket) {
    return fail(socket.error());
  }
  ServiceRequest request;
  request.op = ServiceOp::Flush;
  if (send_packet(socket->value(), encode(request)) != SendOutcome::Sent) {
    return fail(Error::make(Errc::PeerGone, "the resolver at %s took no request to flush",
                            socket_path.c_str()));
  }
  return {};
}

/// Waits for another generation than `before`.
Result<std::uint32_t> await_generation(const CacheReader& reader, std::uint32_t before,
                                       const std::string& path, Instant deadline) {
  while (reader.generation() == before) {
    if (monotonic_now() >= deadline) {
      return fail(Error::make(Errc::Timeout,
                              "%s: its resolver did not empty it in time: does it run, and has it "
                              "a port?",
                              path.c_str()));
    }
    poll(nullptr, 0, kLookMs);
  }
  return reader.generation();
}

}  // namespace

Result<std::uint32_t> flush_cache(const CacheFile& cache, const NodePlaces& places,
                                  Instant deadline) {
  if (cache.uid != geteuid()) {
    return fail(Error::make(Errc::NoPermission, "%s belongs to uid %u: only that user may empty it",
                            cache.path.c_str(), cache.uid));
  }
  const PKey pkey(cache.partition);
  const auto directory =
      cache.is_public
          ? NodeDirectory::public_names(places.public_directory, cache.port_guid, pkey)
          : NodeDirectory::open(places.directory, places.cache_directory, cache.port_guid, pkey);
  if (!directory) {
    return fail(directory.error());
  }
  auto lock = NodeLock::open(directory->lock_path(), directory->audience());
  if (!lock) {
    return fail(lock.error());
  }
  const auto locked = lock->try_lock(cache.epoch);
  if (!locked) {
    return fail(locked.error());
  }
  if (*locked) {
    // A writer of another basis than the file's finds everything in it void.
    const auto writer =
        CacheWriter::open({cache.path, kMinCacheSlots, CacheBasis{}, false, cache.is_public});
    const Result<std::uint32_t> generation =
        writer ? Result<std::uint32_t>(writer->generation()) : fail(writer.error());
    lock->unlock(cache.epoch);
    return generation;
  }
  const auto reader = CacheReader::open(cache.path);
  if (!reader) {
    return fail(reader.error());
  }
  const std::uint32_t before = reader->generation();
  if (auto asked = ask_resolver_to_flush(directory->socket_path(cache.epoch)); !asked) {
    return fail(asked.error());
  }
  return await_generation(*reader, before, cache.path, deadline);
}

}  // namespace wireup::acm
