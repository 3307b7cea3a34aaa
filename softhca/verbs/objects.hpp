// SPDX-License-Identifier: BSD-3-Clause
// The objects a program gets pointers to. In each the libibverbs structure comes first, so that a
// pointer to one is a pointer to the other; what follows is ours.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "softhca/fabric/fabric_view.hpp"
#include "softhca/hca/completion_queue.hpp"
#include "softhca/hca/event_channel.hpp"
#include "softhca/hca/memory_region.hpp"
#include "softhca/hca/qp.hpp"
#include "softhca/hca/runtime.hpp"
#include "softhca/hca/send_request.hpp"
#include "softhca/hca/shared_receive_queue.hpp"
#include "softhca/verbs/send_builder.hpp"

#define SOFTHCA_EXPORT extern "C" __attribute__((visibility("default")))

namespace softhca::verbs {

/// Vendor libraries tell their devices by words behind the ibv_device; zeros there say "not yours".
inline constexpr std::size_t kForeignBytes = 4096;

struct Device {
  ibv_device base;
  std::array<std::uint8_t, kForeignBytes> foreign;
  HcaInfo info;
  std::uint32_t hca_index;
  int index;
};

struct Context {
  verbs_context verbs;
  hca::Runtime* runtime;
  Device* device;
  std::unique_ptr<hca::EventChannel> async;
  std::atomic<std::uint32_t> next_pd{1};
  std::atomic<std::uint32_t> users{1};  // the program, until it closes it, and each object

  [[nodiscard]] const HcaInfo& info() const { return device->info; }
  /// kNoPort when the number is not one of this device's.
  [[nodiscard]] PortIndex port(unsigned number) const {
    return number >= 1 && number <= info().ports.size() ? info().ports[number - 1] : kNoPort;
  }
  [[nodiscard]] hca::ChannelName async_name() const { return async->name(); }

  /// The error with which a fault rule makes a call fail now, 0 if none does.
  [[nodiscard]] int injected(hca::Call call, std::uint32_t to_state = hca::kAnyState) const;
  /// A limit of the device as fault rules have lowered it.
  [[nodiscard]] int lowered(hca::Limit what, std::uint32_t declared) const;
};

/// A context lasts as long as the last of its objects, closed or not: garbage collectors, such as
/// Python's, destroy both in any order.
struct ContextRelease {
  void operator()(Context* context) const;
};
using ContextUse = std::unique_ptr<Context, ContextRelease>;

inline ContextUse use(Context& context) {
  ++context.users;
  return ContextUse(&context);
}

struct Td {
  ibv_td base;
  std::atomic<int> users{0};
};

/// A protection domain, or a parent domain, which shares the number of its protection domain.
struct Pd {
  ibv_pd base;
  std::uint32_t number;
  std::atomic<int> users{0};
  Pd* parent = nullptr;
  Td* td = nullptr;
};

struct Mr {
  ibv_mr base;
  std::unique_ptr<hca::MemoryRegion> region;
};

struct Channel {
  ibv_comp_channel base;
  ContextUse context;
  std::unique_ptr<hca::EventChannel> events;
};

/// The completion that is being read from an extended queue.
struct ExtendedPoll {
  std::mutex mutex;
  bool polling = false;
  hca::Cqe entry{};
};

struct Cq {
  ibv_cq_ex base;  // the extended form always, of which ibv_cq is the head
  ContextUse context;
  std::unique_ptr<hca::CompletionQueue> queue;
  std::unique_ptr<ExtendedPoll> poller;  // of a queue made by ibv_create_cq_ex
  std::atomic<int> users{0};
  std::uint32_t comp_events_reported = 0;   // with base.mutex
  std::uint32_t async_events_reported = 0;  // with base.mutex
};

struct Srq {
  ibv_srq base;
  ContextUse context;
  std::unique_ptr<hca::SharedReceiveQueue> queue;
  std::atomic<int> users{0};
  std::uint32_t events_reported = 0;  // with base.mutex
};

struct Qp {
  ibv_qp_ex base;  // the extended form always, of which ibv_qp is the head
  ContextUse context;
  std::unique_ptr<hca::Qp> queue;
  std::unique_ptr<SendBuilder> builder;  // of a QP made with send operations
  bool signal_all = false;
  std::uint32_t events_reported = 0;  // with base.qp_base.mutex
};

inline Device* of(ibv_device* device) {
  return reinterpret_cast<Device*>(device);
}
inline Context* of(ibv_context* context) {
  return reinterpret_cast<Context*>(reinterpret_cast<std::uint8_t*>(context) -
                                    offsetof(verbs_context, context));
}
inline Pd* of(ibv_pd* pd) {
  return reinterpret_cast<Pd*>(pd);
}
inline Td* of(ibv_td* td) {
  return reinterpret_cast<Td*>(td);
}
inline Mr* of(ibv_mr* mr) {
  return reinterpret_cast<Mr*>(mr);
}
inline Channel* of(ibv_comp_channel* channel) {
  return reinterpret_cast<Channel*>(channel);
}
inline Cq* of(ibv_cq* cq) {
  return reinterpret_cast<Cq*>(cq);
}
inline Srq* of(ibv_srq* srq) {
  return reinterpret_cast<Srq*>(srq);
}
inline Qp* of(ibv_qp* qp) {
  return reinterpret_cast<Qp*>(qp);
}
inline hca::AddressHandle* of(ibv_ah* ah) {
  return reinterpret_cast<hca::AddressHandle*>(ah);
}

inline ibv_cq* base_of(Cq& cq) {
  return ibv_cq_ex_to_cq(&cq.base);
}

/// Which object of this process lies in which slot of a table of the registry; by it an event finds
/// its object.
template <typename T>
class ObjectTable {
 public:
  explicit ObjectTable(std::uint32_t slots)
      : size_(slots), objects_(static_cast<T**>(std::calloc(slots, sizeof(T*)))) {}

  void put(std::uint32_t slot, T* object) {
    const std::lock_guard lock(mutex_);
    objects_[slot] = object;
  }

  /// Runs `use(object)` while the object cannot be destroyed. False when there is none.
  template <typename Use>
  bool with(std::uint32_t slot, Use&& use) {
    const std::lock_guard lock(mutex_);
    return slot < size_ && objects_[slot] != nullptr && use(*objects_[slot]);
  }

 private:
  std::mutex mutex_;
  std::uint32_t size_;
  T** objects_;  // never freed: events may come until the process ends
};

ObjectTable<Cq>& cq_table();
ObjectTable<Qp>& qp_table();
ObjectTable<Srq>& srq_table();

/// The operations that programs call through the context.
void fill_operations(verbs_context& verbs);

int poll_cq(ibv_cq* cq, int count, ibv_wc* wc);
int req_notify_cq(ibv_cq* cq, int solicited_only);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad);
int query_port(ibv_context* context, std::uint8_t number, ibv_port_attr* attr, std::size_t size);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, std::size_t size);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* init);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* init);
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* init);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* init);
int query_rt_values(ibv_context* context, ibv_values_ex* values);

/// Directory that stands in for /sys, with class/infiniband/<device> in it.
std::string sysfs_root(const hca::Runtime& runtime);
/// Makes sysfs_root() and what is fixed in it, with an entry for the device `name`, open to all if
/// the fabric is; returns the entry's path. An empty name makes no entry and returns the directory
/// of the entries.
std::string make_sysfs_entry(const hca::Runtime& runtime, const std::string& name);

/// Sets errno and returns a null pointer.
inline std::nullptr_t fail(int error) {
  errno = error;
  return nullptr;
}

}  // namespace softhca::verbs
