// The routes for operators about the audit logs that this site witnesses: list them with their findings,
// acknowledge a finding, and confirm a size after a restore of this site.

import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { timestamp } from '../../api/object.ts';
import type { PublicLog } from '../../core/audit/public-log.ts';
import { HansaError } from '../../core/errors/error.ts';
import { objectOf } from '../../core/json/json-body.ts';
import { type PlaneResponse, type PlaneRoute, route } from '../../core/plane/route.ts';
import { requesterOf } from '../../core/plane/requester.ts';
import { peeringPaths } from '../paths.ts';
import { findingId, type FindingReason } from '../witness/finding.ts';
import type { OperatorDecisions } from '../witness/operator-decisions.ts';
import type { Witness } from '../witness/witness.ts';
import { verifierOf, type WitnessedLog } from '../witness/witnessed-logs.ts';

/** The log of one peer, as this site has verified it. */
export interface WitnessedSummary {
  readonly name: string;
  readonly origin: string;
  /** The verifier key of the log. */
  readonly key: string;
  readonly events: number;
  readonly rootHash: string;
  /** Whether this site may cosign it after its own restore. */
  readonly confirmed: boolean;
  /** For how long messages of the peer have not shown that the log extends what this site has seen. */
  readonly staleSeconds?: number;
  /** What the peer has cosigned of the log of this site. */
  readonly cosigned: {
    readonly events: number;
    /** When, by the clock of the peer. */
    readonly at?: string;
    /** For how long it has cosigned none of the events that wait for it. Absent if the peer is not live. */
    readonly waitsSeconds?: number;
  };
  readonly finding?: {
    /** Names the finding in the request to acknowledge it. */
    readonly id: string;
    readonly reason: FindingReason;
    readonly message: string;
    readonly at: string;
    /** The signed notes that show it. */
    readonly proof: readonly string[];
  };
}

const maxBodyBytes = 4096;

export function witnessRoutes(
  witness: Pick<Witness, 'logs' | 'awaited' | 'stale'>,
  publicLog: Pick<PublicLog, 'cosignatures' | 'cosignedBy'>,
  decisions: OperatorDecisions,
): readonly PlaneRoute[] {
  const cosignedBy = (name: string): WitnessedSummary['cosigned'] => {
    const events = publicLog.cosignedBy(name);
    const { timeSeconds } = publicLog.cosignatures.of(name) ?? {};
    const waitsMs = witness.awaited.waitsMs(name);
    return {
      events,
      ...(events === 0 || timeSeconds === undefined ? {} : { at: timestamp(timeSeconds * 1000) }),
      ...(waitsMs === undefined ? {} : { waitsSeconds: Math.round(waitsMs / 1000) }),
    };
  };
  const summary = (name: string, log: WitnessedLog): WitnessedSummary => {
    const { finding } = log;
    const staleMs = witness.stale.staleMs(name);
    return {
      name,
      origin: verifierOf(log).name,
      key: log.key,
      events: log.size,
      rootHash: log.rootHash,
      confirmed: witness.logs.isConfirmed(log),
      ...(staleMs === 0 ? {} : { staleSeconds: Math.round(staleMs / 1000) }),
      cosigned: cosignedBy(name),
      ...(finding === undefined
        ? {}
        : {
            finding: {
              id: findingId(finding),
              reason: finding.reason,
              message: finding.message,
              at: timestamp(finding.atMs),
              proof: finding.proof,
            },
          }),
    };
  };
  const one = (name: string): PlaneResponse => {
    const log = witness.logs.get(name);
    return json(log === undefined ? {} : summary(name, log.value));
  };
  return [
    route({
      listener: 'api',
      method: 'GET',
      path: peeringPaths.witness,
      allow: 'rights',
      rights: [{ verb: 'list', kind: federationPeerKind }],
      handle: async () =>
        json({ logs: witness.logs.list().map(({ name, value }) => summary(name, value)) }),
    }),
    route({
      listener: 'api',
      method: 'POST',
      path: peeringPaths.witnessAcknowledge,
      allow: 'rights',
      rights: [{ verb: 'update', kind: federationPeerKind, nameFrom: 'name' }],
      handle: async (request) => {
        const id = await request.json(maxBodyBytes, findingIn);
        await decisions.acknowledge(request.params.name, id, requesterOf(request));
        return one(request.params.name);
      },
    }),
    route({
      listener: 'api',
      method: 'POST',
      path: peeringPaths.witnessConfirm,
      allow: 'rights',
      rights: [{ verb: 'update', kind: federationPeerKind, nameFrom: 'name' }],
      handle: async (request) => {
        await decisions.confirm(request.params.name, requesterOf(request));
        return one(request.params.name);
      },
    }),
  ];
}

/** Which finding to acknowledge. */
function findingIn(body: unknown): string {
  const { finding } = objectOf(body);
  if (typeof finding === 'string' && finding !== '') return finding;
  throw new HansaError(
    'HANSA_BAD_REQUEST',
    'Cannot acknowledge: the body must name the finding, such as {"finding":"0123456789abcdef"}. hansa witness show prints its id.',
  );
}

function json(value: unknown): PlaneResponse {
  return { status: 200, contentType: 'application/json', body: JSON.stringify(value) };
}
