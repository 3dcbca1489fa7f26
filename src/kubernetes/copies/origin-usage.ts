// Counts what one cluster asks other clusters to hold, and says what exceeds its limits. It follows each change,
// so that a change of one endpoint costs O(1) while the cluster is within its limits.

import type { NativeService } from '../../api/kinds/native-service.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import { serviceNameLabel } from '../names.ts';
import type { EndpointSlice, IPFamily, Node, Service } from '../objects.ts';
import { byAge } from '../services/agree-ports.ts';
import {
  type Claim,
  chooseClaims,
  chooseSlices,
  costOfSlice,
  defaultLimits,
  mostMemberServices,
  mostServiceEndpoints,
  type OriginLimits,
  type ReachedLimit,
  type SliceClaim,
} from '../services/choose-claims.ts';
import { keyOfRef } from '../services/federated-name.ts';
import { mayJoin } from '../services/global-namespaces.ts';
import { addressesOfNode, keyOfMember, type MemberService } from '../services/member-service.ts';
import { isSource } from '../services/slice-source.ts';
import type { CopyRules } from './copy-rules.ts';
import { addressesPerName, mostNames } from './host-names.ts';
import { countSlices } from './slice-feed.ts';
import type { SyncedMember } from './synced-member.ts';

/** What is left out of one cluster in others. Immutable. */
export interface LeftOut {
  /** By `keyOfMember`. */
  readonly services: ReadonlyMap<string, ReachedLimit>;
  /** Names of slices, by `keyOfMember`. */
  readonly slices: ReadonlyMap<string, ReadonlySet<string>>;
  /** `keyOfRef` of each member Service in these. */
  readonly federated: ReadonlyMap<string, string>;
}

export const nothingLeftOut: LeftOut = {
  services: new Map(),
  slices: new Map(),
  federated: new Map(),
};

interface Counted {
  readonly service: MemberService;
  readonly federated: string;
  /** Of a Service that is reached by its pods, by name. */
  readonly slices: Map<string, SliceClaim>;
  sliceCost: number;
}

/** Decided once for all targets, because each of them asks after each change of the cluster. */
interface Judged {
  readonly settings: unknown;
  readonly isExceeded: boolean;
  leftOut?: LeftOut;
}

type CountingRules = Pick<CopyRules, 'memberOf' | 'memberOfNative' | 'followMembers'>;

export class OriginUsage {
  readonly #member: SyncedMember;
  readonly #rules: CountingRules;
  /** By `keyOfMember`. */
  readonly #counted = new Map<string, Counted>();
  /** Member Services by federated Service. */
  readonly #names = new Map<string, number>();
  readonly #nodes = new Map<string, readonly IPFamily[]>();
  readonly #nodeAddresses: Record<IPFamily, number> = { IPv4: 0, IPv6: 0 };
  /** Federated Services with too many member Services, and Services with too many endpoints. */
  #crowded = 0;
  #large = 0;
  /** Of Services by pods, by fixed addresses, and of families of Services by nodes. */
  #podCost = 0;
  #fixedCost = 0;
  readonly #onNodes: Record<IPFamily, number> = { IPv4: 0, IPv6: 0 };
  #sorted: readonly Counted[] | undefined;
  #judged: Judged | undefined;
  #wasRead = false;

  constructor(member: SyncedMember, rules: CountingRules) {
    this.#member = member;
    this.#rules = rules;
    this.look();
  }

  /** Follows the member until the returned function is called. Others must listen later to see its result. */
  follow(): () => void {
    const { services, nativeServices, nodes } = this.#member;
    const stops = [
      services.onChange(({ old, new: now }) =>
        this.#replace(old && this.#memberOf(old), now && this.#memberOf(now)),
      ),
      nativeServices.onChange(({ old, new: now }) =>
        this.#replace(old && this.#nativeOf(old), now && this.#nativeOf(now)),
      ),
      countSlices(this.#member, ({ old, new: now }) => {
        const isMoved = now === undefined || serviceOf(old) !== serviceOf(now);
        if (old !== undefined && isMoved) this.#countSlice(old, undefined);
        if (now !== undefined) this.#countSlice(now, now);
      }),
      nodes.onChange(({ key, new: now }) => this.#countNode(key, now)),
      ...this.#rules.followMembers(this.#member, (key) => this.#countAgain(key)),
    ];
    return () => {
      for (const stop of stops) stop();
    };
  }

  /** Call it when the member was read, or its objects were forgotten. */
  look(): void {
    const { isRead, services, nativeServices, nodes } = this.#member;
    if (isRead === this.#wasRead) return;
    this.#wasRead = isRead;
    for (const { service } of this.#counted.values()) this.#remove(service);
    for (const key of this.#nodes.keys()) this.#countNode(key, undefined);
    if (!isRead) return;
    for (const service of services.objects()) this.#replace(undefined, this.#memberOf(service));
    for (const service of nativeServices.objects()) {
      this.#replace(undefined, this.#nativeOf(service));
    }
    for (const node of nodes.objects()) this.#countNode(node.metadata.name, node);
  }

  /** Whether something may be left out. O(1). */
  get isExceeded(): boolean {
    return this.#current().isExceeded;
  }

  /** The same object while nothing changed. O(1) within the limits, else O(member Services of the cluster). */
  get leftOut(): LeftOut {
    const current = this.#current();
    return current.isExceeded ? (current.leftOut ??= this.#choose()) : nothingLeftOut;
  }

  #current(): Judged {
    const { settings } = this.#member;
    if (this.#judged?.settings === settings) return this.#judged;
    const { services, endpoints } = this.#limits;
    const isExceeded =
      this.#crowded > 0 || this.#large > 0 || this.#names.size > services || this.#cost > endpoints;
    this.#judged = { settings, isExceeded };
    return this.#judged;
  }

  get #limits(): OriginLimits {
    return this.#member.settings.limits ?? defaultLimits;
  }

  get #cost(): number {
    const onNodes = (['IPv4', 'IPv6'] as const).map(
      (family) => this.#onNodes[family] * costOfSlice(this.#nodeAddresses[family]),
    );
    const byPods = this.#member.settings.routable ? this.#podCost : 0;
    return onNodes.reduce((sum, each) => sum + each, byPods + this.#fixedCost);
  }

  #choose(): LeftOut {
    const { settings } = this.#member;
    this.#sorted ??= [...this.#counted.values()].toSorted((a, b) => byAge(a.service, b.service));
    const counted = this.#sorted.filter(({ service }) =>
      mayJoin(settings, service.ref, service.namespace),
    );
    const claims = counted.map(
      ({ service, federated, sliceCost }): Claim => ({
        ...service,
        federated,
        cost: this.#costOf(service, sliceCost),
      }),
    );
    const services = chooseClaims(claims, this.#limits);
    const slices = new Map<string, ReadonlySet<string>>();
    const federated = new Map<string, string>();
    for (const each of counted) {
      const key = keyOfMember(each.service);
      const isLarge = each.sliceCost > mostServiceEndpoints;
      if (isLarge) slices.set(key, chooseSlices([...each.slices.values()]));
      if (isLarge || services.has(key)) federated.set(key, each.federated);
    }
    return { services, slices, federated };
  }

  #costOf({ exposure }: MemberService, sliceCost: number): number {
    if (exposure.by === 'pods') {
      return this.#member.settings.routable ? Math.min(sliceCost, mostServiceEndpoints) : 0;
    }
    if (exposure.by !== 'nodes') return fixedCost(exposure);
    const perFamily = exposure.families.map((family) => costOfSlice(this.#nodeAddresses[family]));
    return Math.min(
      perFamily.reduce((sum, each) => sum + each, 0),
      mostServiceEndpoints,
    );
  }

  #memberOf(service: Service): MemberService | undefined {
    const found = this.#rules.memberOf(service, this.#member);
    // It is left out anyway.
    return found?.exposure.by === 'nothing' && found.exposure.reason === 'ExternalName'
      ? undefined
      : found;
  }

  #nativeOf(service: NativeService): MemberService | undefined {
    return this.#rules.memberOfNative(service, this.#member);
  }

  /** Something else than the Service decides whether it is a member. `key` is NAMESPACE/NAME. */
  #countAgain(key: string): void {
    const { clusterID, services } = this.#member;
    const slash = key.indexOf('/');
    const [namespace, name] = [key.slice(0, slash), key.slice(slash + 1)];
    const counted = this.#counted.get(keyOfMember({ clusterID, kind: 'Service', namespace, name }));
    const service = services.byKey(key);
    this.#replace(counted?.service, service && this.#memberOf(service));
  }

  #replace(old: MemberService | undefined, now: MemberService | undefined): void {
    if (old !== undefined && now !== undefined && jsonEquals(old, now)) return;
    if (old !== undefined) this.#remove(old);
    if (now === undefined) return;
    const federated = keyOfRef(now.ref);
    const counted: Counted = { service: now, federated, slices: new Map(), sliceCost: 0 };
    this.#counted.set(keyOfMember(now), counted);
    this.#sorted = undefined;
    this.#countName(federated, 1);
    this.#countFixed(now, 1);
    if (now.exposure.by !== 'pods') return;
    const slices = this.#member.slices.byIndex('service', `${now.namespace}/${now.name}`);
    for (const slice of slices) this.#countSlice(slice, slice);
  }

  #remove(service: MemberService): void {
    const key = keyOfMember(service);
    const counted = this.#counted.get(key);
    if (counted === undefined) return;
    this.#counted.delete(key);
    this.#sorted = undefined;
    this.#countName(counted.federated, -1);
    this.#countFixed(counted.service, -1);
    this.#countPods(counted, 0);
  }

  #countName(federated: string, by: 1 | -1): void {
    const before = this.#names.get(federated) ?? 0;
    const count = before + by;
    if (count === 0) this.#names.delete(federated);
    else this.#names.set(federated, count);
    this.#crowded += Number(count > mostMemberServices) - Number(before > mostMemberServices);
    this.#judged = undefined;
  }

  #countFixed({ exposure }: MemberService, by: 1 | -1): void {
    this.#fixedCost += by * fixedCost(exposure);
    this.#judged = undefined;
    if (exposure.by !== 'nodes') return;
    for (const family of exposure.families) this.#onNodes[family] += by;
  }

  #countPods(counted: Counted, sliceCost: number): void {
    const capped = (cost: number): number => Math.min(cost, mostServiceEndpoints);
    this.#podCost += capped(sliceCost) - capped(counted.sliceCost);
    this.#large +=
      Number(sliceCost > mostServiceEndpoints) - Number(counted.sliceCost > mostServiceEndpoints);
    counted.sliceCost = sliceCost;
    this.#judged = undefined;
  }

  /** `now` is undefined where the slice is gone. */
  #countSlice({ metadata }: EndpointSlice, now: EndpointSlice | undefined): void {
    const { clusterID } = this.#member;
    const { namespace = '', labels, name: sliceName, creationTimestamp = '' } = metadata;
    const name = labels?.[serviceNameLabel] ?? '';
    const counted = this.#counted.get(keyOfMember({ clusterID, kind: 'Service', namespace, name }));
    if (counted?.service.exposure.by !== 'pods') return;
    const before = counted.slices.get(sliceName)?.cost ?? 0;
    const isCounted = now !== undefined && isSource(now) && now.addressType !== 'FQDN';
    const cost = isCounted ? costOfSlice((now.endpoints ?? []).length) : 0;
    if (cost === before) return;
    if (cost === 0) counted.slices.delete(sliceName);
    else counted.slices.set(sliceName, { name: sliceName, createdAt: creationTimestamp, cost });
    this.#countPods(counted, counted.sliceCost + cost - before);
  }

  #countNode(key: string, node: Node | undefined): void {
    const families = (node === undefined ? [] : addressesOfNode(node)).map(
      (address): IPFamily => (address.includes(':') ? 'IPv6' : 'IPv4'),
    );
    const before = this.#nodes.get(key) ?? [];
    for (const family of before) this.#nodeAddresses[family]--;
    for (const family of families) this.#nodeAddresses[family]++;
    if (node === undefined) this.#nodes.delete(key);
    else this.#nodes.set(key, families);
    if (before.join() !== families.join()) this.#judged = undefined;
  }
}

const serviceOf = (slice: EndpointSlice | undefined): string | undefined =>
  slice?.metadata.labels?.[serviceNameLabel];

/** Of addresses that the Service itself has. A name counts as many as it may have. */
function fixedCost(exposure: MemberService['exposure']): number {
  switch (exposure.by) {
    case 'addresses':
      return costOfSlice(exposure.addresses.length);
    case 'loadBalancer':
      return costOfSlice(
        exposure.addresses.length +
          Math.min(exposure.hostnames.length, mostNames) * addressesPerName,
      );
    default:
      return 0;
  }
}
