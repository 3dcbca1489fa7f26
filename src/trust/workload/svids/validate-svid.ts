// The route behind `hansa svid validate`: verifies an SVID as the site itself does, against the bundles
// that it trusts now, and returns the violated rule. For troubleshooting.

import { spiffeFederationKind } from '../../../api/kinds/spiffe-federation.ts';
import { timestamp } from '../../../api/object.ts';
import { readFields, readString } from '../../../core/access/request-body.ts';
import { type CoreErrorCode, HansaError } from '../../../core/errors/error.ts';
import {
  type Claims,
  maxTokenBytes,
  validateJwtSvid,
} from '../../../core/identity/jwt/svid-validator.ts';
import { parseCertificatesPem } from '../../../core/identity/x509/pem.ts';
import { ChainVerifier, strangerRate } from '../../../core/identity/x509/chain-verifier.ts';
import { maxChainLength, svidOf } from '../../../core/identity/x509/svid-validator.ts';
import { TokenBuckets } from '../../../core/limits/token-buckets.ts';
import type { PlaneContext } from '../../../core/plane/plane.ts';
import { type ApiRequest, type PlaneRoute, route } from '../../../core/plane/route.ts';
import { trustPaths } from '../../paths.ts';

/** The content of a valid SVID, or the rule that an invalid one violates. */
export type Verdict = GoodSvid | BadSvid;

export interface GoodSvid {
  readonly valid: true;
  readonly type: SvidType;
  readonly spiffeId: string;
  readonly notAfter: string;
  /** Of a JWT-SVID: the key that signed it. */
  readonly keyId?: string;
  readonly audience?: readonly string[];
  readonly claims?: Claims;
  /** Of an X.509-SVID. */
  readonly serialNumber?: string;
  /** SHA-256 of the authority at the end of its path. */
  readonly authority?: string;
}

export interface BadSvid {
  readonly valid: false;
  readonly type: SvidType;
  readonly code: CoreErrorCode;
  readonly rule: string;
  readonly message: string;
}

export type SvidType = 'X509-SVID' | 'JWT-SVID';

interface ValidateParts extends Pick<PlaneContext, 'bundles' | 'clock'> {
  readonly chains: ChainVerifier;
}

/** Users and tokens of the site. */
const maxCallers = 1_024;

/** Of a chain of full length with RSA keys, in PEM. */
const maxBodyBytes = 128 * 1024;

/** POST: `{token, audience}` or `{certificates}`, the leaf first, in PEM. Answers 200 with a verdict. */
export function validateRoute(given: Pick<PlaneContext, 'bundles' | 'clock'>): PlaneRoute {
  const { bundles, clock } = given;
  const budget = new TokenBuckets({ clock, maxKeys: maxCallers, ...strangerRate });
  const parts = { ...given, chains: new ChainVerifier({ bundles, budget }) };
  return route({
    listener: 'api',
    method: 'POST',
    path: trustPaths.validate,
    // It shows which trust domains the site trusts: no more than the list of federations does.
    allow: 'rights',
    rights: [{ verb: 'list', kind: spiffeFederationKind }],
    handle: async (request) => ({
      status: 200,
      contentType: 'application/json',
      headers: { 'cache-control': 'no-store' },
      body: JSON.stringify(await verdictOf(parts, request)),
    }),
  });
}

async function verdictOf(parts: ValidateParts, request: ApiRequest): Promise<Verdict> {
  const fields = await request.json(maxBodyBytes, (body) =>
    readFields(body, ['token', 'audience', 'certificates']),
  );
  if ((fields.token === undefined) === (fields.certificates === undefined)) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      'The request must contain either a token or certificates.',
    );
  }
  if (fields.certificates !== undefined) {
    const pem = readString(fields, 'certificates', () => true, 'certificates in PEM');
    return judged('X509-SVID', 'HANSA_CERTIFICATE_INVALID', () =>
      judgeChain(parts, pem, request.caller.user),
    );
  }
  const token = readString(
    fields,
    'token',
    () => true,
    `a token of ${maxTokenBytes} bytes at most`,
  );
  const audience = readString(
    fields,
    'audience',
    (text) => text !== '',
    'the audience of the token',
  );
  return judged('JWT-SVID', 'HANSA_JWT_INVALID', () => judgeToken(parts, token, audience));
}

async function judged(
  type: SvidType,
  code: CoreErrorCode,
  judge: () => GoodSvid | Promise<GoodSvid>,
): Promise<Verdict> {
  try {
    return await judge();
  } catch (error) {
    if (!(error instanceof HansaError) || error.code !== code) throw error;
    const rule = error.details?.causes?.[0]?.reason ?? '';
    return { valid: false, type, code, rule, message: error.message };
  }
}

async function judgeChain(
  { chains, clock }: ValidateParts,
  pem: string,
  user: string,
): Promise<GoodSvid> {
  const chain = parseCertificatesPem(pem, maxChainLength);
  const verdict = await chains.judgeFor(user, chain, clock.now());
  if (verdict === undefined) {
    throw new HansaError(
      'HANSA_TOO_MANY_REQUESTS',
      'Cannot validate the SVID: you sent too many certificates with wrong signatures. Try again in a few seconds.',
      { details: { retryAfterSeconds: 5 } },
    );
  }
  const { id, notAfterMs, serialHex, authorityFingerprint } = svidOf(verdict);
  return {
    valid: true,
    type: 'X509-SVID',
    spiffeId: id.toString(),
    notAfter: timestamp(notAfterMs),
    serialNumber: serialHex,
    authority: authorityFingerprint,
  };
}

function judgeToken({ bundles, clock }: ValidateParts, token: string, audience: string): GoodSvid {
  const svid = validateJwtSvid(token, audience, bundles, clock.now());
  return {
    valid: true,
    type: 'JWT-SVID',
    spiffeId: svid.id.toString(),
    notAfter: timestamp(svid.expiresAtMs),
    keyId: svid.keyId,
    audience: svid.audience,
    claims: svid.claims,
  };
}
