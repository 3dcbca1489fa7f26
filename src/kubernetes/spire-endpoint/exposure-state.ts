// Reads what routers say about the exposure of a bundle endpoint: by which host others call it, and whether they
// rejected it. Pure.

import { itemsIn, recordIn, textIn } from '../members/field-values.ts';
import type { Refusal } from '../spire/compile-conditions.ts';
import type { ServerObjects } from '../spire/compile-objects.ts';
import type { LiveObject, ObjectOutcome } from '../spire/object-applier.ts';

export interface ExposureState {
  readonly host: string | undefined;
  readonly rejection: Refusal | undefined;
}

const most = 16;

/** Of the exposure as it is in the cluster. Undefined where there is none. */
export function exposureOf({ exposure }: ServerObjects, outcomes: readonly ObjectOutcome[]) {
  if (exposure?.manifest === undefined) return undefined;
  const found = outcomes.find(({ manifest }) => manifest.kind === exposure.type);
  if (found === undefined || !('live' in found) || found.live === undefined) return undefined;
  return readExposure(found.live, exposure.host);
}

/** `host` is the one of the spec, where there is one. */
function readExposure(live: LiveObject, host: string | undefined): ExposureState {
  const status = recordIn(live['status']);
  switch (live.kind) {
    case 'Route':
      return routeState(status, host);
    case 'TLSRoute':
      return tlsRouteState(status, host);
    default:
      return { host, rejection: undefined };
  }
}

interface RouterVerdict {
  readonly type: string | undefined;
  readonly status: string | undefined;
  readonly reason: string;
  readonly message: string;
}

function verdictsIn(value: unknown): readonly RouterVerdict[] {
  return itemsIn(value, most, (item) => {
    const { type, status, reason, message } = recordIn(item);
    return {
      type: textIn(type),
      status: textIn(status),
      reason: textIn(reason) ?? '',
      message: textIn(message) ?? '',
    };
  });
}

/** Each router writes an entry. One that admitted the Route is enough. */
function routeState(
  status: Readonly<Record<string, unknown>>,
  host: string | undefined,
): ExposureState {
  const routers = itemsIn(status['ingress'], most, (item) => {
    const { host: given, conditions } = recordIn(item);
    const admitted = verdictsIn(conditions).find(({ type }) => type === 'Admitted');
    return { host: textIn(given, 253), admitted };
  });
  const admitted = routers.find((each) => each.admitted?.status === 'True');
  if (admitted !== undefined) return { host: admitted.host ?? host, rejection: undefined };
  const rejecting = routers.find((each) => each.admitted?.status === 'False');
  const rejected = rejecting?.admitted;
  if (rejected === undefined) return { host: routers[0]?.host ?? host, rejection: undefined };
  const isTaken = rejected.reason === 'HostAlreadyClaimed';
  // A Route whose spec names no host gets one from the router.
  const taken = rejecting?.host ?? host ?? 'that the router chose';
  return {
    host,
    rejection: isTaken
      ? {
          reason: 'HostTaken',
          message: `Another Route has the host ${taken}. ${rejected.message} Set spec.federation.exposure.host to another name, or remove the other Route.`,
        }
      : {
          reason: 'NotAdmitted',
          message: `The router rejects the Route: ${rejected.reason} ${rejected.message}`.trim(),
        },
  };
}

function tlsRouteState(
  status: Readonly<Record<string, unknown>>,
  host: string | undefined,
): ExposureState {
  const parents = itemsIn(status['parents'], most, (item) =>
    verdictsIn(recordIn(item)['conditions']),
  );
  const rejected = parents
    .flat()
    .find(
      ({ type, status: found }) =>
        (type === 'Accepted' || type === 'ResolvedRefs') && found === 'False',
    );
  return {
    host,
    rejection: rejected && {
      reason: 'NotAdmitted',
      message: `The Gateway rejects the TLSRoute: ${rejected.reason} ${rejected.message}`.trim(),
    },
  };
}
