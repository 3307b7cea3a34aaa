// SPDX-License-Identifier: BSD-3-Clause
// Automatic path migration (IBTA vol 1, 17.2.8): an RC or UC queue pair may have a second path
// loaded. Both ends ask for it (REARM), the next message arms it (ARMED), and it is taken when the
// program says so or when the first path answers no more; the peer follows with the next message.
#include <algorithm>

#include "softhca/hca/deliver.hpp"
#include "softhca/hca/migration.hpp"
#include "softhca/hca/qp.hpp"
#include "softhca/hca/robust_lock.hpp"
#include "softhca/hca/runtime.hpp"

namespace softhca::hca {
namespace {

PathRecord path_of(const ibv_ah_attr& av, std::uint32_t port_index, std::uint8_t port_num,
                   std::uint16_t pkey_index) {
  PathRecord path{};
  path.port_index = port_index;
  path.dlid = av.dlid;
  path.pkey_index = pkey_index;
  path.src_path_bits = av.src_path_bits;
  path.sl = av.sl;
  path.port_num = port_num;
  path.is_global = av.is_global;
  std::copy(std::begin(av.grh.dgid.raw), std::end(av.grh.dgid.raw), path.dgid.begin());
  return path;
}

}  // namespace

void take_alternate(QpRecord& record) {
  std::swap(record.path, record.alternate);
  record.migration.store(IBV_MIG_MIGRATED);
  record.migrations.fetch_add(1);
}

bool Qp::migration_ok(const ibv_qp_attr& attr, int mask) const {
  if ((mask & IBV_QP_ALT_PATH) != 0) {
    const std::uint8_t port = attr.alt_port_num;
    if (port == 0 || port > init_.ports.size() || attr.alt_timeout > 31 ||
        attr.alt_pkey_index >= runtime_->ports().port(init_.ports[port - 1U]).pkey_count) {
      return false;
    }
  }
  if ((mask & IBV_QP_PATH_MIG_STATE) == 0) {
    return true;
  }
  const bool loaded = (mask & IBV_QP_ALT_PATH) != 0 || attr_.alt_port_num != 0;
  // ARMED is what the two ends come to; a program cannot set it.
  return attr.path_mig_state == IBV_MIG_MIGRATED ||
         (attr.path_mig_state == IBV_MIG_REARM && loaded);
}

/// Send mutex and rx_lock are held.
void Qp::publish_paths() {
  const auto port = [this](std::uint8_t number) {
    return number == 0 ? kNone : init_.ports[number - 1U];
  };
  record_->path = path_of(attr_.ah_attr, port(attr_.port_num), attr_.port_num, attr_.pkey_index);
  record_->alternate = path_of(attr_.alt_ah_attr, port(attr_.alt_port_num), attr_.alt_port_num,
                               attr_.alt_pkey_index);
}

/// What the program asks for: REARM waits for the peer's; MIGRATED takes an armed alternate path.
void Qp::set_migration(ibv_mig_state wanted) {
  if (wanted == IBV_MIG_MIGRATED && record_->migration.load() == IBV_MIG_ARMED) {
    take_alternate(*record_);
    send_qp_event(runtime_->registry(), slot_, IBV_EVENT_PATH_MIG);
    adopt_migration();
    return;
  }
  record_->migration.store(wanted);
}

/// Brings the attributes up to a migration that this side or the peer has made. Send mutex held.
void Qp::adopt_migration() {
  const std::uint32_t made = record_->migrations.load();
  if (made == migrations_seen_) {
    return;
  }
  if ((made - migrations_seen_) % 2 != 0) {
    std::swap(attr_.ah_attr, attr_.alt_ah_attr);
    std::swap(attr_.port_num, attr_.alt_port_num);
    std::swap(attr_.pkey_index, attr_.alt_pkey_index);
    std::swap(attr_.timeout, attr_.alt_timeout);
    forget_routes();
  }
  migrations_seen_ = made;
}

void Qp::forget_routes() {
  path_.there.forget();
  path_.back.forget();
  path_.back_from = kNoPort;
}

/// Takes the alternate path because the first one answers no more. False when none is armed.
bool Qp::migrate_by_itself() {
  {
    const RobustGuard guard(record_->rx_lock, runtime_->registry().processes(), runtime_->token());
    if (record_->migration.load() != IBV_MIG_ARMED) {
      return false;
    }
    take_alternate(*record_);
  }
  send_qp_event(runtime_->registry(), slot_, IBV_EVENT_PATH_MIG);
  adopt_migration();
  return true;
}

}  // namespace softhca::hca
