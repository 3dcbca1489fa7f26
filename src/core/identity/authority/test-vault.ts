// Test fixture: an authority whose record is in memory.

import { TrustDomain } from '../../../api/values/trust-domain.ts';
import { SeededRandom } from '../../clock/seeded-random.ts';
import { VirtualClock } from '../../clock/virtual.ts';
import type { AuditRow } from '../../store/store.ts';
import { type AuthorityOptions, SiteAuthority } from './authority.ts';
import type { AuthorityVault } from './record.ts';

export class MemoryVault implements AuthorityVault {
  record: Buffer | undefined;
  created = 0;
  /** The audit records of every `replace`, in order. */
  readonly audited: (readonly AuditRow[])[] = [];
  readonly #watchers = new Set<() => void>();

  async load(): Promise<Buffer | undefined> {
    return this.record && Buffer.from(this.record);
  }

  watch(changed: () => void): () => void {
    this.#watchers.add(changed);
    return () => this.#watchers.delete(changed);
  }

  async create(record: Buffer): Promise<boolean> {
    if (this.record !== undefined) return false;
    this.record = Buffer.from(record);
    this.created++;
    return true;
  }

  async replace(record: Buffer, audit: readonly AuditRow[]): Promise<void> {
    this.record = Buffer.from(record);
    this.audited.push(audit);
    for (const changed of this.#watchers) changed();
  }
}

export interface TestSite {
  readonly authority: SiteAuthority;
  readonly clock: VirtualClock;
  readonly random: SeededRandom;
  readonly vault: MemoryVault;
}

export async function testSite(
  trustDomain = 'lubeck.example',
  options: Partial<AuthorityOptions> & { clock?: VirtualClock } = {},
): Promise<TestSite> {
  const clock = options.clock ?? new VirtualClock();
  const random = new SeededRandom(trustDomain);
  const vault = new MemoryVault();
  const authority = await SiteAuthority.open({
    random,
    vault,
    ...options,
    trustDomain: TrustDomain.parse(trustDomain),
    clock,
  });
  return { authority, clock, random, vault };
}
