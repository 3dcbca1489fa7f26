// Test fixture of this folder: a site with access control and nothing else, on a real store.

import { TrustDomain } from '../../api/values/trust-domain.ts';
import { type AuditDraft, encodeEvent } from '../audit/event.ts';
import { SeededRandom } from '../clock/seeded-random.ts';
import { VirtualClock } from '../clock/virtual.ts';
import { openStore } from '../store/open.ts';
import type { Entry, Store } from '../store/store.ts';
import type { AccessAudit } from './audit-draft.ts';
import { Authenticator } from './authenticator.ts';
import { Authorizer } from './authorizer.ts';
import { checkEscalation } from './escalation.ts';
import { putObject } from './granting-object.ts';
import type { Caller } from './identity.ts';
import { authenticatedGroup } from './identity.ts';
import {
  bindingsCollection,
  type RoleBindingSpec,
  rolesCollection,
  type RoleSpec,
} from './policy.ts';
import type { KindName } from './presets.ts';
import type { Rule } from './rules.ts';
import { TokenRegister } from './token-register.ts';

export const sceneKinds: readonly KindName[] = [
  { kind: 'Site', plural: 'sites', singleton: 'site', editable: true },
  { kind: 'Role', plural: 'roles' },
  { kind: 'RoleBinding', plural: 'rolebindings' },
  { kind: 'Approval', plural: 'approvals' },
  { kind: 'Network', plural: 'networks', editable: true },
  { kind: 'Agent', plural: 'agents' },
  { kind: 'WorkloadEntry', plural: 'workloadentries' },
];

export interface Scene {
  readonly store: Store;
  readonly clock: VirtualClock;
  readonly random: SeededRandom;
  readonly authorizer: Authorizer;
  readonly tokens: TokenRegister;
  readonly authenticator: Authenticator;
  readonly audit: AccessAudit;
  /** All audit records that were drafted, even where their commit failed. */
  readonly drafts: AuditDraft[];
  /** Writes as the site itself, without authorization. */
  readonly role: (name: string, rules: readonly Rule[]) => Promise<Entry>;
  readonly bind: (name: string, spec: RoleBindingSpec) => Promise<Entry>;
  /** Writes as the API does for a caller: checks, then commits with the expectations of the check. */
  readonly attempt: (
    caller: Caller,
    kind: 'Role' | 'RoleBinding',
    name: string,
    spec: RoleSpec | RoleBindingSpec,
    meanwhile?: () => Promise<unknown>,
  ) => Promise<Entry>;
}

export const lubeck = TrustDomain.parse('lubeck.example');

export function person(user: string, ...groups: string[]): Caller {
  return { user, groups: [...groups, authenticatedGroup], via: 'certificate' };
}

export async function openScene(seed = 'access'): Promise<Scene> {
  const clock = new VirtualClock();
  const random = new SeededRandom(seed);
  const store = await openStore({ driver: 'memory' }, { clock });
  const authorizer = new Authorizer({ store, kinds: sceneKinds });
  const tokens = new TokenRegister(store, clock);
  const drafts: AuditDraft[] = [];
  const audit: AccessAudit = {
    record: (draft) => {
      drafts.push(draft);
      const time = new Date(clock.now()).toISOString();
      return {
        encode: ({ index, revision }) => encodeEvent({ ...draft, time, index, revision }),
      };
    },
  };
  const put = (kind: 'Role' | 'RoleBinding', name: string, spec: RoleSpec | RoleBindingSpec) =>
    putObject({
      kind,
      collection: kind === 'Role' ? rolesCollection : bindingsCollection,
      name,
      uid: random.uuid(),
      createdAtMs: clock.now(),
      labels: {},
      spec: JSON.parse(JSON.stringify(spec)),
    });
  const write = async (
    kind: 'Role' | 'RoleBinding',
    name: string,
    spec: RoleSpec | RoleBindingSpec,
  ): Promise<Entry> => {
    const { entries } = await store.commit({ put: [put(kind, name, spec)] });
    return entries[0] as Entry;
  };
  return {
    store,
    clock,
    random,
    authorizer,
    tokens,
    authenticator: new Authenticator({ trustDomain: lubeck, tokens, clock }),
    audit,
    drafts,
    role: (name, rules) => write('Role', name, { rules }),
    bind: (name, spec) => write('RoleBinding', name, spec),
    attempt: async (caller, kind, name, spec, meanwhile) => {
      const collection = kind === 'Role' ? rolesCollection : bindingsCollection;
      const live = store.get(collection, name);
      const old = live && JSON.parse(live.value.toString('utf8'));
      const metadata = { ...old?.metadata, name };
      const expect = checkEscalation(authorizer, caller, kind, { metadata, spec }, old);
      await meanwhile?.();
      const { entries } = await store.commit({ expect, put: [put(kind, name, spec)] });
      return entries[0] as Entry;
    },
  };
}
