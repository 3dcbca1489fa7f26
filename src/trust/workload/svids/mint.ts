// The route to mint an X.509-SVID: an owner of the site issues it for a program that cannot use the
// workload socket. The client generates the key, and sends only the public key.

import { timestamp } from '../../../api/object.ts';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import { changeDraft } from '../../../core/access/audit-draft.ts';
import type { Caller } from '../../../core/access/identity.ts';
import { readFields, readPublicKey, readSeconds } from '../../../core/access/request-body.ts';
import { HansaError } from '../../../core/errors/error.ts';
import { maxTtlSeconds } from '../../../core/identity/authority/phases.ts';
import { certificatePem } from '../../../core/identity/x509/pem.ts';
import { commitFenced } from '../../../core/lease/current-fence.ts';
import type { PlaneContext } from '../../../core/plane/plane.ts';
import { type ApiRequest, type PlaneRoute, route } from '../../../core/plane/route.ts';
import { trustPaths } from '../../paths.ts';

export interface MintedSvid {
  readonly spiffeId: string;
  /** PEM, the leaf first. */
  readonly certificate: string;
  /** The authorities of the site's trust domain, PEM. */
  readonly bundle: string;
  readonly serialNumber: string;
  readonly notAfter: string;
}

export type MintParts = Pick<PlaneContext, 'authority' | 'store' | 'audit'>;

/** Enough for a SPIFFE ID of full length and a key. */
const maxBodyBytes = 16 * 1024;
const leastTtlSeconds = 60;

/** POST: `{spiffeID, publicKey, ttlSeconds?}`, the key as a SubjectPublicKeyInfo in PEM. */
export function mintRoute(parts: MintParts): PlaneRoute {
  return route({
    listener: 'api',
    method: 'POST',
    path: trustPaths.mint,
    allow: 'owner',
    refusal: notMinter,
    handle: async (request) => ({
      status: 201,
      contentType: 'application/json',
      body: JSON.stringify(await mint(parts, request)),
    }),
  });
}

async function mint(parts: MintParts, request: ApiRequest): Promise<MintedSvid> {
  const { authority, store, audit } = parts;
  const { caller, address } = request;
  const fields = await request.json(maxBodyBytes, (body) =>
    readFields(body, ['spiffeID', 'publicKey', 'ttlSeconds']),
  );
  const ttlSeconds =
    readSeconds(fields, 'ttlSeconds', leastTtlSeconds, maxTtlSeconds) ?? maxTtlSeconds;
  const spiffeId = SpiffeId.parse(typeof fields.spiffeID === 'string' ? fields.spiffeID : '');
  const issued = await authority.issue({ spiffeId, publicKey: readPublicKey(fields), ttlSeconds });
  const notAfter = timestamp(issued.notAfterMs);
  await commitFenced(store, {
    audit: [
      audit.record(
        changeDraft(caller, address === undefined ? {} : { address }, {
          verb: 'svid.mint',
          kind: 'SVID',
          name: spiffeId.toString(),
          reason: `serial number ${issued.serialHex}, until ${notAfter}`,
        }),
      ),
    ],
  });
  return {
    spiffeId: spiffeId.toString(),
    certificate: issued.chain.map((der) => certificatePem(der)).join(''),
    bundle: authority.bundle.pem,
    serialNumber: issued.serialHex,
    notAfter,
  };
}

/** An owner who can mint can be any workload, so no role grants it. */
export function notMinter({ user }: Caller): HansaError {
  return new HansaError(
    'HANSA_FORBIDDEN',
    `Cannot mint an SVID for ${user}: only the owner of the site may do this, over the admin socket. Create a WorkloadEntry instead.`,
    { details: { kind: 'SVID' } },
  );
}
