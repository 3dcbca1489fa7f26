// A new authority of this site, by hand: published at once, so that every peer and every workload
// believes it before it signs anything.

import { timestamp } from '../api/object.ts';
import { actorOf } from '../core/access/audit-draft.ts';
import { adminsGroup } from '../core/access/identity.ts';
import { HansaError } from '../core/errors/error.ts';
import { authorityAudit } from '../core/identity/authority-audit.ts';
import type { BundlePublisher } from '../core/identity/published-bundle.ts';
import type { PlaneContext, PlaneRequest, PlaneRoute } from '../core/plane/plane.ts';

const authoritiesPath = '/hansa/v1/trust/authorities';

/** What the API answers. */
export interface PreparedAuthority {
  /** SHA-256 of its certificate, in hexadecimal. */
  readonly fingerprint: string;
  readonly notAfter: string;
  /** Of the bundle that holds it. */
  readonly sequence: number;
}

export interface PrepareParts extends Pick<PlaneContext, 'authority' | 'audit'> {
  readonly publisher: BundlePublisher;
  /** Called when it is published: workloads of this site are told too. */
  readonly published: () => void;
}

export function prepareRoute(parts: PrepareParts): PlaneRoute {
  return {
    listener: 'api',
    method: 'POST',
    path: authoritiesPath,
    handle: async (request) => ({
      status: 201,
      contentType: 'application/json',
      body: JSON.stringify(await prepare(parts, request)),
    }),
  };
}

async function prepare(
  { authority, audit, publisher, published }: PrepareParts,
  { caller, address }: PlaneRequest,
): Promise<PreparedAuthority> {
  if (caller === undefined || !caller.groups.includes(adminsGroup)) {
    throw new HansaError(
      'HANSA_FORBIDDEN',
      `Cannot prepare an authority for ${caller?.user ?? 'nobody'}: only the owner of the site may, over the admin socket.`,
    );
  }
  const { id: fingerprint, notAfterMs } = await authority.prepare(
    'x509',
    authorityAudit(audit, actorOf(caller, address === undefined ? {} : { address })),
  );
  const { sequence } = await publisher.current();
  published();
  return { fingerprint, notAfter: timestamp(notAfterMs), sequence };
}
