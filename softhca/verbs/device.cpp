// SPDX-License-Identifier: BSD-3-Clause
// Finding and opening devices.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "softhca/verbs/objects.hpp"

namespace softhca::verbs {
namespace {

std::mutex devices_mutex;

/// Devices once seen stay: programs keep pointers to them after freeing the list.
std::vector<Device*>& known_devices() {
  static auto* devices = new std::vector<Device*>;
  return *devices;
}

Device* device_for(hca::Runtime& runtime, const HcaInfo& info, int index) {
  auto& devices = known_devices();
  const auto known = std::find_if(devices.begin(), devices.end(), [&](const Device* device) {
    return device->info.node_guid == info.node_guid;
  });
  if (known != devices.end()) {
    return *known;
  }
  auto* device = new Device{};
  device->info = info;
  device->index = index;
  device->hca_index = info.ports.empty() ? 0 : runtime.ports().port(info.ports[0]).hca_index;
  device->base.node_type = IBV_NODE_CA;
  device->base.transport_type = IBV_TRANSPORT_IB;
  const std::string ibdev_path = make_sysfs_entry(runtime, info.name);
  std::snprintf(device->base.name, sizeof device->base.name, "%s", info.name.c_str());
  std::snprintf(device->base.dev_name, sizeof device->base.dev_name, "uverbs%d", index);
  std::snprintf(device->base.dev_path, sizeof device->base.dev_path, "%s", ibdev_path.c_str());
  std::snprintf(device->base.ibdev_path, sizeof device->base.ibdev_path, "%s", ibdev_path.c_str());
  devices.push_back(device);
  return device;
}

void explain(const char* what, int error) {
  if (std::getenv("SOFTHCA_DEBUG") != nullptr) {
    const char* dir = std::getenv("SOFTHCA_DIR");
    const char* host = std::getenv("SOFTHCA_HOST");
    std::fprintf(stderr, "softhca: no devices: %s (%s); SOFTHCA_DIR %s, SOFTHCA_HOST %s\n", what,
                 std::strerror(error), dir != nullptr ? dir : "not set",
                 host != nullptr ? host : "not set");
  }
}

}  // namespace

ObjectTable<Cq>& cq_table() {
  static auto* table = new ObjectTable<Cq>(hca::kMaxCqs);
  return *table;
}

ObjectTable<Qp>& qp_table() {
  static auto* table = new ObjectTable<Qp>(hca::kMaxQps);
  return *table;
}

ObjectTable<Srq>& srq_table() {
  static auto* table = new ObjectTable<Srq>(hca::kMaxSrqs);
  return *table;
}

void ContextRelease::operator()(Context* context) const {
  if (--context->users == 0) {
    pthread_mutex_destroy(&context->verbs.context.mutex);
    delete context;
  }
}

int Context::injected(hca::Call call, std::uint32_t to_state) const {
  if (!runtime->faults().has(hca::RuleKind::Call)) {
    return 0;
  }
  const hca::Traffic traffic{
      .from = port(1), .what = static_cast<std::uint32_t>(call), .to_state = to_state};
  const auto rule = runtime->faults().strike(hca::RuleKind::Call, traffic);
  return rule ? static_cast<int>(rule->code) : 0;
}

int Context::lowered(hca::Limit what, std::uint32_t declared) const {
  const auto limit = runtime->faults().limit(what, port(1));
  return static_cast<int>(std::min<std::uint64_t>(limit.value_or(declared), declared));
}

void fill_operations(verbs_context& verbs) {
  ibv_context_ops& ops = verbs.context.ops;
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = req_notify_cq;
  ops.post_send = post_send;
  ops.post_recv = post_recv;
  ops.post_srq_recv = post_srq_recv;
  verbs.query_port = query_port;
  verbs.query_device_ex = query_device_ex;
  verbs.create_qp_ex = create_qp_ex;
  verbs.create_cq_ex = create_cq_ex;
  verbs.alloc_td = alloc_td;
  verbs.dealloc_td = dealloc_td;
  verbs.alloc_parent_domain = alloc_parent_domain;
  verbs.query_rt_values = query_rt_values;
}

}  // namespace softhca::verbs

using namespace softhca;
using namespace softhca::verbs;

#undef ibv_get_device_list

SOFTHCA_EXPORT ibv_device** ibv_get_device_list(int* num_devices) {
  if (num_devices != nullptr) {
    *num_devices = 0;
  }
  std::vector<HcaInfo> hcas;
  hca::Runtime* runtime = hca::Runtime::instance();
  if (runtime == nullptr) {
    explain("cannot attach to the fabric", errno);
  } else if (!runtime->view().writer_alive()) {
    explain("the fabric agent is not running", ENODEV);
  } else {
    hcas = runtime->view().hcas_of(runtime->host());
    if (hcas.empty()) {
      explain("the fabric has no HCA whose NodeDescription starts with the host's name", ENODEV);
    }
  }
  // NOLINTNEXTLINE(bugprone-sizeof-expression): pointers are what the list holds
  auto** list = static_cast<ibv_device**>(std::calloc(hcas.size() + 1, sizeof(ibv_device*)));
  if (list == nullptr) {
    return fail(ENOMEM);
  }
  const std::lock_guard lock(devices_mutex);
  int count = 0;
  for (const HcaInfo& info : hcas) {
    list[count] = &device_for(*runtime, info, count)->base;
    ++count;
  }
  if (num_devices != nullptr) {
    *num_devices = count;
  }
  errno = 0;
  return list;
}

SOFTHCA_EXPORT void ibv_free_device_list(ibv_device** list) {
  std::free(list);
}

SOFTHCA_EXPORT const char* ibv_get_device_name(ibv_device* device) {
  return device->name;
}

SOFTHCA_EXPORT int ibv_get_device_index(ibv_device* device) {
  return of(device)->index;
}

SOFTHCA_EXPORT __be64 ibv_get_device_guid(ibv_device* device) {
  return __builtin_bswap64(of(device)->info.node_guid);
}

SOFTHCA_EXPORT ibv_context* ibv_open_device(ibv_device* base) {
  hca::Runtime* runtime = hca::Runtime::instance();
  if (runtime == nullptr) {
    return fail(ENODEV);
  }
  Device* device = of(base);
  auto context = std::make_unique<Context>();
  context->runtime = runtime;
  context->device = device;
  context->async =
      hca::EventChannel::create(runtime->registry(), runtime->channel_slots(), runtime->token(),
                                hca::ChannelKind::Async, device->hca_index);
  if (!context->async) {
    return nullptr;
  }
  if (const int error = context->injected(hca::Call::OpenDevice)) {
    return fail(error);
  }
  verbs_context& verbs = context->verbs;
  verbs.sz = sizeof(verbs_context);
  fill_operations(verbs);
  verbs.context.device = base;
  verbs.context.cmd_fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  verbs.context.async_fd = context->async->fd();
  verbs.context.num_comp_vectors = 1;
  pthread_mutex_init(&verbs.context.mutex, nullptr);
  verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  return &context.release()->verbs.context;
}

SOFTHCA_EXPORT int ibv_close_device(ibv_context* base) {
  ::close(base->cmd_fd);
  ContextRelease()(of(base));
  return 0;
}
