// Tells member Services of the target, in a condition of their status, what became of their DNS names. A copy
// on which a user wrote a name is told too. The condition goes when a Service asks for no name any more.

import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import { findCondition, setCondition } from '../../core/reconcile/conditions.ts';
import type { ReconcileContext } from '../../core/reconcile/controller.ts';
import { asConflict } from '../copies/sync-term.ts';
import { writerOf } from '../fencing/fenced-writer.ts';
import { namedCondition } from '../names.ts';
import type { Condition, Service } from '../objects.ts';
import { isCopy } from '../services/compile-copy.ts';
import type { Outcome } from '../services/compile-plan.ts';
import { type FederatedRef, federatedRefOf, isRef, keyOfRef } from '../services/federated-name.ts';
import type { AskedNames } from './asked-names.ts';
import type { NameDecision } from './decide-names.ts';
import type { DnsTerm } from './dns-term.ts';

/** Of the whole message. */
const maxMessageLength = 4096;

export interface Told {
  readonly ref: FederatedRef;
  readonly key: string;
  readonly asked: AskedNames | undefined;
  readonly copy: Service | undefined;
  readonly decision: NameDecision;
  /** Before each write. */
  readonly pace: () => void;
}

/** Returns after how long it must be called again, if at all. */
export async function syncNamedConditions(
  term: DnsTerm,
  { key, asked, copy, decision, pace }: Told,
  context: ReconcileContext,
): Promise<number | undefined> {
  const { member, namespace: systemNamespace } = term.options;
  let waitMs: number | undefined;
  const tell = async (
    service: Service,
    outcome: Outcome | undefined,
    isStill: (fresh: Service) => boolean,
  ): Promise<void> => {
    const ownMs = await writeCondition(term, service, { outcome, isStill, pace }, context);
    if (ownMs !== undefined) waitMs = Math.min(waitMs ?? ownMs, ownMs);
  };
  const isMember = (service: Service): boolean => {
    const found = isCopy(service) ? undefined : federatedRefOf(service.metadata, systemNamespace);
    return isRef(found) && keyOfRef(found) === key;
  };
  for (const service of member.services.byIndex('federated', key)) {
    if (!isMember(service)) continue;
    const { namespace, name } = service.metadata;
    const isIgnored = asked?.ignored.has(`${member.clusterID}/${namespace}/${name}`) ?? false;
    await tell(service, isIgnored ? ignored(asked?.decidedBy) : decision.outcome, isMember);
  }
  if (copy !== undefined) await tell(copy, decision.outcomeByHand, isCopy);
  return waitMs;
}

/** For a Service that belongs to no federated Service any more. */
export async function syncLeftCondition(
  term: DnsTerm,
  serviceKey: string,
  context: ReconcileContext,
): Promise<number | undefined> {
  const { member, namespace } = term.options;
  const service = member.services.byKey(serviceKey);
  const isLeft = (one: Service): boolean =>
    !isCopy(one) && !isRef(federatedRefOf(one.metadata, namespace));
  if (service === undefined || !isLeft(service)) return undefined;
  const change = { outcome: undefined, isStill: isLeft, pace: () => undefined };
  return writeCondition(term, service, change, context);
}

function ignored(decidedBy: string | undefined): Outcome {
  return {
    status: 'False',
    reason: 'HostnameIgnored',
    message: `The older member Service ${decidedBy ?? ''} has other names, and it decides. Write the same names here, or none.`,
  };
}

interface ConditionChange {
  readonly outcome: Outcome | undefined;
  /** Whether the Service, as it was read, still gets it. */
  readonly isStill: (service: Service) => boolean;
  readonly pace: () => void;
}

async function writeCondition(
  term: DnsTerm,
  cached: Service,
  { outcome, isStill, pace }: ConditionChange,
  context: ReconcileContext,
): Promise<number | undefined> {
  if (isTold(cached, outcome)) return undefined;
  const { member, clock } = term.options;
  const { namespace = '', name } = cached.metadata;
  const waitMs = term.pauseOf(`condition ${namespace}/${name}`, pace);
  if (waitMs !== undefined) return waitMs;
  context.signal.throwIfAborted();
  const path = kubePath`/api/v1/namespaces/${namespace}/services/${name}`;
  try {
    const fresh = await member.client.get<Service>(path);
    if (!isStill(fresh) || isTold(fresh, outcome)) return undefined;
    const conditions = conditionsWith(fresh.status?.conditions ?? [], outcome, clock.now());
    const changed = { ...fresh, status: { ...fresh.status, conditions } };
    await writerOf(member.client, context).replaceStatus(path, changed);
    return undefined;
  } catch (error) {
    // It was deleted meanwhile.
    if (error instanceof KubeStatusError && error.status === 404) return undefined;
    throw asConflict(error);
  }
}

function isTold({ status }: Service, outcome: Outcome | undefined): boolean {
  const found = findCondition(status?.conditions, namedCondition);
  if (outcome === undefined) return found === undefined;
  return (
    found !== undefined &&
    found.status === outcome.status &&
    found.reason === outcome.reason &&
    found.message === bounded(outcome.message)
  );
}

function conditionsWith(
  conditions: readonly Condition[],
  outcome: Outcome | undefined,
  nowMs: number,
): readonly Condition[] {
  if (outcome === undefined) return conditions.filter(({ type }) => type !== namedCondition);
  const { status, reason, message } = outcome;
  const update = { type: namedCondition, status, reason, message: bounded(message) };
  return setCondition(conditions, update, nowMs);
}

function bounded(message: string): string {
  return message.length > maxMessageLength ? `${message.slice(0, maxMessageLength - 1)}…` : message;
}
