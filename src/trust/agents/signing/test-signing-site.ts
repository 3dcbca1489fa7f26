// For tests only: a site that signs for agents, with an in-memory store, and requests as agents make them.

import { createPublicKey, type KeyObject } from 'node:crypto';
import type { TestContext } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { SignRequestSchema, type SignResponse } from '../../../../proto/gen/agent_pb.ts';
import { agentKind } from '../../../api/kinds/agent.ts';
import type { SigningAgent } from '../../../core/agent/agent-signer.ts';
import {
  type AuditDraft,
  type AuditEvent,
  encodeEvent,
  parseEvent,
} from '../../../core/audit/event.ts';
import { systemRandom } from '../../../core/clock/system.ts';
import { VirtualClock } from '../../../core/clock/virtual.ts';
import { generateP256 } from '../../../core/identity/x509/keys.ts';
import { MetricsRegistry } from '../../../core/metrics/registry.ts';
import { openStore } from '../../../core/store/open.ts';
import { StoreFederationState } from '../../authorization/federation-state.ts';
import { FederatedBundles } from '../../federation/federated-bundles.ts';
import type { Member } from '../../join/members.ts';
import { signTranscript } from '../../join/proof.ts';
import { openAuthority, put } from '../../workload/test-workload-site.ts';
import { AgentEntries } from '../agent-entries.ts';
import { agentStanding } from './agent-standing.ts';
import { signForAgent } from './sign-for-agent.ts';
import { signingTranscript } from '../sign-transcript.ts';
import { StoreAssignments } from '../store-assignments.ts';
import { lubeck } from '../state/test-site-objects.ts';
import { silentLog } from '../../../core/log/test-log.ts';

/** The keying material of the connection of the tests. */
export const exporter = Buffer.alloc(32, 7);
export const crane: SigningAgent = { name: 'crane-1', address: '192.0.2.1', serialHex: 'a1' };

/** A site `lubeck.example` with the agents `crane-1` and `crane-2`. */
export async function signingSite(
  t: Pick<TestContext, 'after'>,
  { siteNames = [] as readonly string[], jwtIssuer = undefined as string | undefined } = {},
) {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  t.after(() => store.close());
  const authority = await openAuthority('lubeck.example', clock);
  const denials: AuditDraft[] = [];
  const members = new Map<string, Partial<Member>>();
  const bundles = new FederatedBundles(store, authority, clock);
  const federationState = new StoreFederationState(store, bundles);
  /** Called around each commit of audit records, and for each X.509-SVID: how long it takes. */
  const hooks = {
    beforeCommit: (): unknown => undefined,
    afterCommit: (): unknown => undefined,
    signsForMs: () => 0,
  };
  let signedForMs = 0;
  const standingParts = {
    trustDomain: lubeck,
    federationState,
    members: {
      get: (instance: string) => {
        const member = members.get(instance) as Member | undefined;
        return member && { instance, member, revision: 1 };
      },
    },
  };
  const assignments = new StoreAssignments(store);
  const sign = signForAgent({
    trustDomain: lubeck,
    clock: {
      now: () => clock.now(),
      monotonic: () => clock.monotonic() + signedForMs,
      timer: (delayMs, fire) => clock.timer(delayMs, fire),
    },
    log: silentLog,
    metrics: new MetricsRegistry(),
    store: {
      commit: async (commit) => {
        await hooks.beforeCommit();
        const committed = await store.commit(commit);
        await hooks.afterCommit();
        return committed;
      },
    },
    audit: {
      record: (draft) => ({
        encode: (place) => encodeEvent({ ...draft, time: '2026-01-01T00:00:00.000Z', ...place }),
      }),
      deny: (draft) => void denials.push(draft),
    },
    authority: {
      issue: (request) => {
        signedForMs += hooks.signsForMs();
        return authority.issue(request);
      },
      get jwtSigner() {
        return authority.jwtSigner;
      },
      isTainted: (id) => authority.isTainted(id),
    },
    entries: new AgentEntries({ store, trustDomain: lubeck, siteNames, assignments }),
    standing: (agent) => agentStanding(standingParts, agent),
    jwtIssuer,
  });
  for (const name of ['crane-1', 'crane-2']) {
    await put(store, agentKind.plural, name, { spec: {} });
    members.set(`agent/${name}`, { name, provenBy: 'secret' });
  }
  const records = async (): Promise<readonly AuditEvent[]> =>
    (await store.auditLog.read(0, 10_000)).map((row) => parseEvent(row));
  return { clock, store, authority, members, denials, hooks, sign, records };
}

export type SigningSite = Awaited<ReturnType<typeof signingSite>>;

export const onCrane = { agents: { names: ['crane-1'] } } as const;

/** The refusal of each request, or undefined. */
export const refusals = ({ x509, jwt }: SignResponse): readonly (string | undefined)[] =>
  [...x509, ...jwt].map(({ refusal }) => refusal && `${refusal.code} ${refusal.message}`);

export interface Asked {
  readonly entry: string;
  readonly key: KeyObject;
  /** What the proof covers, where it is not this request. */
  readonly proves?: Partial<Parameters<typeof signingTranscript>[0]>;
  readonly proof?: Uint8Array;
}

export function x509Request({ entry, key, proves, proof }: Asked, id: bigint) {
  const publicKey = createPublicKey(key).export({ format: 'der', type: 'spki' });
  const transcript = signingTranscript({
    trustDomain: lubeck.name,
    agent: crane.name,
    exporter,
    request: id,
    entry,
    publicKey,
    ...proves,
  });
  return { entry, publicKey, proof: proof ?? signTranscript(transcript, key) };
}

export function requestOf(
  asked: readonly Asked[],
  jwt: readonly { readonly entry: string; readonly audience: string[] }[] = [],
  id = 1n,
) {
  return create(SignRequestSchema, {
    id,
    x509: asked.map((one) => x509Request(one, id)),
    jwt: [...jwt],
  });
}

export const newKey = (): Promise<KeyObject> => generateP256(systemRandom);
