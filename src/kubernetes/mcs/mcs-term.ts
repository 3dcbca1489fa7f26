// What the part for exported Services wrote itself in one term of the leader, beside Services and slices.

import type { Clock } from '../../core/clock/clock.ts';
import type { SourceSink } from '../../core/reconcile/source.ts';
import { RecentWrites } from '../copies/recent-writes.ts';
import type { SyncedMember } from '../copies/synced-member.ts';
import { keyOfRef } from '../services/federated-name.ts';
import { refOf } from './exported-services.ts';
import type { ServiceExport, ServiceImport } from './mcs-objects.ts';

export class McsTerm {
  readonly imports: RecentWrites<ServiceImport>;
  readonly exports: RecentWrites<ServiceExport>;
  /** When the status of an export was last written, in monotonic time. By NAMESPACE/NAME. */
  readonly toldMs = new Map<string, number>();

  constructor(
    { serviceImports, serviceExports }: Pick<SyncedMember, 'serviceImports' | 'serviceExports'>,
    clock: Clock,
    sink: Pick<SourceSink, 'add'>,
  ) {
    const look = (_: string, { metadata }: ServiceImport | ServiceExport): void =>
      sink.add(keyOfRef(refOf(metadata)));
    this.imports = new RecentWrites(clock, (key) => serviceImports?.byKey(key), look);
    this.exports = new RecentWrites(clock, (key) => serviceExports?.byKey(key), look);
  }

  /** Ends its timers. */
  stop(): void {
    this.imports.stop();
    this.exports.stop();
  }
}
