// The route behind `hansa peer reenrol`: ends the trust in a peer that lost its keys, and returns the
// invitation by which it starts over.

import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { timestamp } from '../../api/object.ts';
import type { ApprovalGate } from '../../core/approvals/approval-gate.ts';
import { withApproval } from '../../core/approvals/with-approval.ts';
import { HansaError } from '../../core/errors/error.ts';
import { objectOf } from '../../core/json/json-body.ts';
import { requesterOf } from '../../core/plane/requester.ts';
import { type PlaneRoute, route } from '../../core/plane/route.ts';
import { reenrolRequest } from '../approval-actions.ts';
import type { InviteOptions } from '../handshake/inviter.ts';
import { inviteAgain, peerToReenrol, type ReenrolmentParts } from '../handshake/reenrolment.ts';
import { peeringPaths } from '../paths.ts';
import { checkReenrol } from '../peers/possible-step.ts';
import { inviteOptions } from './invitation-routes.ts';

const maxBodyBytes = 4096;
const fields: readonly string[] = ['fingerprint', 'ttlSeconds'];

export function reenrolRoute(
  parts: ReenrolmentParts & { readonly approvals: Pick<ApprovalGate, 'allow'> },
): PlaneRoute {
  return route({
    listener: 'api',
    method: 'POST',
    path: peeringPaths.reenrol,
    allow: 'rights',
    rights: [
      { verb: 'update', kind: federationPeerKind, nameFrom: 'name' },
      // It makes an invitation.
      { verb: 'create', kind: federationPeerKind },
    ],
    handle: async (request) => {
      const { name } = request.params;
      const options = await request.json(maxBodyBytes, (body) => optionsIn(name, body));
      const by = requesterOf(request);
      const look = async () => {
        const peer = await peerToReenrol(parts, name);
        // Nobody should approve what cannot be done.
        checkReenrol(peer);
        return peer;
      };
      const { expiresAtMs, ...shown } = await withApproval(
        parts.approvals,
        by,
        async () => reenrolRequest(await look(), options),
        async (spent) => inviteAgain(parts, await look(), options, by, spent),
      );
      const body = JSON.stringify({ ...shown, expiresAt: timestamp(expiresAtMs) });
      return { status: 200, contentType: 'application/json', body };
    },
  });
}

/** Strict, so that a mistake in a field does not make an invitation for any keys. */
function optionsIn(name: string, body: unknown): Pick<InviteOptions, 'forKeys' | 'ttlSeconds'> {
  const given = body === undefined ? {} : objectOf(body);
  const other = Object.keys(given).find((field) => !fields.includes(field));
  if (other !== undefined) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `Cannot re-enrol ${name}: the body has only the fields ${fields.join(' and ')}, and no ${JSON.stringify(other.slice(0, 64))}.`,
    );
  }
  return inviteOptions({ ...given, for: name });
}
