import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { exitCodeOf } from '../cli/exit-codes.ts';
import { errorFromStatus } from '../cli/site/status-error.ts';
import { catalogOf } from '../core/errors/plane-errors.ts';
import { httpStatusOf, statusOf } from '../server/http/status.ts';
import { peeringError, peeringErrors } from './errors.ts';
import { peeringPlane } from './plane.ts';

/** Clients and scripts rely on these: they never change. */
const wires = {
  HANSA_INVITATION_INVALID: [400, 'InvitationInvalid', 3],
  HANSA_INVITATION_EXPIRED: [410, 'InvitationExpired', 5],
  HANSA_INVITATION_REDEEMED: [409, 'InvitationRedeemed', 5],
  HANSA_INVITATION_REFUSED: [403, 'InvitationRefused', 7],
  HANSA_INVITATION_UNKNOWN: [401, 'InvitationUnknown', 6],
  HANSA_TRUST_MATERIAL: [422, 'TrustMaterial', 3],
  HANSA_CONTRACT_VERSION: [422, 'ContractVersion', 3],
  HANSA_PEER_STATE: [409, 'PeerState', 5],
  HANSA_PEER_REFUSED: [403, 'PeerRefused', 7],
  HANSA_PEER_UNREACHABLE: [503, 'PeerUnreachable', 8],
} as const satisfies Record<keyof typeof peeringErrors, unknown>;

suite('an error code of peering', () => {
  const catalog = catalogOf([peeringPlane]);
  for (const [code, [httpStatus, reason, exitCode]] of Object.entries(wires)) {
    test(`${code} is ${httpStatus} ${reason} over HTTP and exit code ${exitCode}`, () => {
      const error = peeringError(code as keyof typeof wires, 'for the test');
      const sent = statusOf(error);
      assert.equal(httpStatusOf(error), httpStatus);
      assert.equal(sent.reason, reason);
      assert.equal(exitCodeOf(error.general), exitCode);
      const received = errorFromStatus(httpStatus, sent, catalog);
      assert.equal(received.code, code);
      assert.equal(exitCodeOf(received.general), exitCode);
    });
  }

  test('is the general one to a program without the plane', () => {
    const sent = statusOf(peeringError('HANSA_PEER_STATE', 'for the test'));
    assert.equal(errorFromStatus(409, sent, catalogOf([])).code, 'HANSA_CONFLICT');
  });
});
