// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/objects.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

namespace wireup::verbs {
namespace {

/// Rough sizes of what the provider registers, for the text of a memlock error.
constexpr std::size_t kPage = 4096;
constexpr std::size_t kCqeSize = 64;
constexpr std::size_t kWqeSize = 64;

using What = std::array<char, 96>;

template <typename... Arguments>
What describe(const char* format, Arguments... arguments) noexcept {
  What text{};
  std::snprintf(text.data(), text.size(), format, arguments...);
  return text;
}

}  // namespace

Result<Pd> Pd::open(const Device& device) {
  errno = 0;
  ibv_pd* raw = device.ops().alloc_pd(device.raw());
  if (raw == nullptr) {
    return fail(creation_error("a protection domain", device.name(), errno, kPage));
  }
  Pd pd;
  pd.device_ = &device.facts();
  pd.handle_ = Handle<ibv_pd>(raw, device.ops().dealloc_pd, "protection domain");
  return pd;
}

Result<CompletionChannel> CompletionChannel::open(const Device& device) {
  errno = 0;
  ibv_comp_channel* raw = device.ops().create_comp_channel(device.raw());
  if (raw == nullptr) {
    return fail(creation_error("a completion channel", device.name(), errno, kPage));
  }
  CompletionChannel channel;
  channel.handle_ =
      Handle<ibv_comp_channel>(raw, device.ops().destroy_comp_channel, "completion channel");
  const int flags = ::fcntl(raw->fd, F_GETFL);
  if (flags < 0 || ::fcntl(raw->fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
      ::fcntl(raw->fd, F_SETFD, FD_CLOEXEC) != 0) {
    return fail(Error::system(Errc::NoResources, errno,
                              "making the completion channel of %s non-blocking",
                              device.name().c_str()));
  }
  return channel;
}

Result<Cq> Cq::open(const Device& device, std::uint32_t entries, const CompletionChannel* channel) {
  const std::uint32_t wanted =
      std::clamp<std::uint32_t>(entries, 1, std::max<std::uint32_t>(device.limits().max_cqe, 1));
  errno = 0;
  ibv_cq* raw = device.ops().create_cq(device.raw(), static_cast<int>(wanted), nullptr,
                                       channel != nullptr ? channel->raw() : nullptr);
  if (raw == nullptr) {
    const int error = errno;
    return fail(creation_error(describe("a completion queue of %u entries", wanted).data(),
                               device.name(), error, wanted * kCqeSize));
  }
  Cq cq;
  cq.ops_ = &device.ops();
  cq.entries_ = std::max(wanted, raw->cqe > 0 ? static_cast<std::uint32_t>(raw->cqe) : 0U);
  cq.handle_ = Handle<ibv_cq>(raw, device.ops().destroy_cq, "completion queue");
  return cq;
}

Result<> Cq::arm(const CompletionChannel& channel) const {
  unsigned events = 0;
  int error = 0;
  for (;;) {
    ibv_cq* cq = nullptr;
    void* user = nullptr;
    error = ops_->get_cq_event(channel.raw(), &cq, &user);
    if (error == EINTR) {
      continue;
    }
    if (error != 0) {
      break;
    }
    ++events;
  }
  if (events > 0) {
    ops_->ack_cq_events(raw(), events);
  }
  if (error != EAGAIN && error != EWOULDBLOCK) {
    return fail(Error::system(Errc::NoResources, error, "reading completion events"));
  }
  if (error = ops_->req_notify_cq(raw()); error != 0) {
    return fail(Error::system(Errc::NoResources, error, "asking for completion events"));
  }
  return {};
}

Result<std::size_t> Cq::poll(std::span<ibv_wc> completions) const {
  const int count = ops_->poll_cq(raw(), static_cast<int>(completions.size()), completions.data());
  if (count < 0) {
    return fail(Error::make(Errc::NoResources,
                            "polling a completion queue of %u entries failed with %d: it has "
                            "overrun or the device is gone",
                            entries_, count));
  }
  return static_cast<std::size_t>(count);
}

Result<Mr> Mr::open(const Pd& pd, std::span<std::uint8_t> memory, int access) {
  const Ops& ops = *pd.device().ops;
  errno = 0;
  ibv_mr* raw = ops.reg_mr(pd.raw(), memory.data(), memory.size(), access);
  if (raw == nullptr) {
    const int error = errno;
    return fail(creation_error(describe("a memory region of %zu bytes", memory.size()).data(),
                               pd.device().name, error, memory.size()));
  }
  Mr mr;
  mr.handle_ = Handle<ibv_mr>(raw, ops.dereg_mr, "memory region");
  return mr;
}

Result<AddressHandle> AddressHandle::open(const Pd& pd, const ibv_ah_attr& attr) {
  const Ops& ops = *pd.device().ops;
  ibv_ah_attr copy = attr;
  errno = 0;
  ibv_ah* raw = ops.create_ah(pd.raw(), &copy);
  if (raw == nullptr) {
    const int error = errno;
    return fail(creation_error(
        describe("an address handle to LID %u", static_cast<unsigned>(attr.dlid)).data(),
        pd.device().name, error, kPage));
  }
  AddressHandle ah;
  ah.handle_ = Handle<ibv_ah>(raw, ops.destroy_ah, "address handle");
  return ah;
}

Result<Qp> Qp::open(const Pd& pd, const ibv_qp_init_attr& attr) {
  const DeviceFacts& device = pd.device();
  ibv_qp_init_attr wanted = attr;
  const std::uint32_t limit = std::max<std::uint32_t>(device.limits.max_qp_wr, 1);
  wanted.cap.max_send_wr = std::min(wanted.cap.max_send_wr, limit);
  wanted.cap.max_recv_wr = std::min(wanted.cap.max_recv_wr, limit);
  errno = 0;
  ibv_qp* raw = device.ops->create_qp(pd.raw(), &wanted);
  if (raw == nullptr) {
    const int error = errno;
    const auto depths = wanted.cap.max_send_wr + wanted.cap.max_recv_wr;
    return fail(
        creation_error(describe("a %s QP of %u sends and %u receives (the device has %u "
                                "QPs)",
                                wanted.qp_type == IBV_QPT_UD ? "UD" : "RC", wanted.cap.max_send_wr,
                                wanted.cap.max_recv_wr, device.limits.max_qp)
                           .data(),
                       device.name, error, depths * kWqeSize));
  }
  Qp qp;
  qp.device_ = &device;
  qp.handle_ = Handle<ibv_qp>(raw, device.ops->destroy_qp, "queue pair");
  return qp;
}

Result<> Qp::modify(const ibv_qp_attr& attr, int mask, const char* step) const {
  ibv_qp_attr copy = attr;
  const int error = device_->ops->modify_qp(raw(), &copy, mask);
  if (error == 0) {
    return {};
  }
  const Errc kind = error == EPERM || error == EACCES    ? Errc::NoPermission
                    : error == ENOMEM || error == EAGAIN ? Errc::NoResources
                                                         : Errc::InvalidArgument;
  return fail(Error::system(kind, error, "moving QP 0x%06x of %s from %s", qpn().value(),
                            device_->name.c_str(), step));
}

}  // namespace wireup::verbs
