// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/hca/memory.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace softhca::hca {

bool SegmentList::add(std::uint64_t address, std::uint64_t length) {
  if (length == 0) {
    return true;
  }
  if (count_ == kCapacity) {
    return false;
  }
  segments_[count_++] = {address, length};
  total_ += length;
  return true;
}

SegmentList SegmentList::skip(std::uint64_t bytes) const {
  SegmentList rest;
  for (const Segment& segment : segments()) {
    const std::uint64_t here = std::min(bytes, segment.length);
    bytes -= here;
    rest.add(segment.address + here, segment.length - here);
  }
  return rest;
}

SegmentList SegmentList::first(std::uint64_t bytes) const {
  SegmentList start;
  for (const Segment& segment : segments()) {
    const std::uint64_t here = std::min(bytes, segment.length);
    bytes -= here;
    start.add(segment.address, here);
  }
  return start;
}

unsigned long fill(const SegmentList& list, IoVectors& vectors) {
  unsigned long count = 0;
  for (const Segment& segment : list.segments()) {
    vectors[count++] = {reinterpret_cast<void*>(segment.address), segment.length};
  }
  return count;
}

namespace {

/// Whether every page of the list is mapped in this process.
bool mapped_here(const SegmentList& list) {
  constexpr std::uint64_t kPage = 4096;
  for (const Segment& segment : list.segments()) {
    const std::uint64_t end = segment.address + segment.length;
    for (std::uint64_t page = segment.address & ~(kPage - 1); page < end; page += kPage) {
      unsigned char resident = 0;
      if (::syscall(SYS_mincore, page, kPage, &resident) != 0) {
        return false;
      }
    }
  }
  return true;
}

/// One system call: the bytes it moved, or -1 and errno.
long transfer(long call, std::uint32_t pid, const SegmentList& local, const SegmentList& remote) {
  IoVectors local_vectors;
  IoVectors remote_vectors;
  const unsigned long local_count = fill(local, local_vectors);
  const unsigned long remote_count = fill(remote, remote_vectors);
  return ::syscall(call, static_cast<pid_t>(pid), local_vectors.data(), local_count,
                   remote_vectors.data(), remote_count, 0UL);
}

CopyResult copy(long call, std::uint32_t pid, const SegmentList& local, const SegmentList& remote) {
  const std::uint64_t wanted = std::min(local.total(), remote.total());
  for (std::uint64_t done = 0; done < wanted;) {
    const long moved = done == 0 ? transfer(call, pid, local, remote)
                                 : transfer(call, pid, local.skip(done), remote.skip(done));
    if (moved > 0) {
      done += static_cast<std::uint64_t>(moved);
      continue;
    }
    switch (moved == 0 ? EFAULT : errno) {
      case EINTR:
        continue;
      case ESRCH:
        return CopyResult::Gone;
      case EPERM:
      case ENOSYS:
        return CopyResult::Denied;
      default:
        return mapped_here(local.first(wanted).skip(done)) ? CopyResult::RemoteFault
                                                           : CopyResult::LocalFault;
    }
  }
  return CopyResult::Ok;
}

}  // namespace

CopyResult write_to_process(std::uint32_t pid, const SegmentList& local,
                            const SegmentList& remote) {
  return copy(SYS_process_vm_writev, pid, local, remote);
}

CopyResult read_from_process(std::uint32_t pid, const SegmentList& local,
                             const SegmentList& remote) {
  return copy(SYS_process_vm_readv, pid, local, remote);
}

void copy_bytes(void* to, const void* from, std::size_t length) {
  // An instruction of its own: a call of memcpy would go to a sanitizer's wrapper, which would
  // report what one thread sends and another receives as a race, since it cannot see the queues.
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
}

}  // namespace softhca::hca
