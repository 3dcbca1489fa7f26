// Reads handshake records of the version before, which had a state of their own each, so that a site
// that is updated in the middle of a handshake finishes it. Pure.

import type { HandshakeState } from '../peers/peer-states.ts';
import type { AcceptanceRecord, InvitationRecord, Redemption } from './records.ts';

export interface EarlierRedemption extends Omit<Redemption, 'state'> {
  readonly confirmed?: boolean;
  /** Its peer was revoked or deleted. */
  readonly over?: boolean;
}

export interface EarlierInvitation extends Omit<InvitationRecord, 'redeemed'> {
  readonly redeemed?: EarlierRedemption;
}

export interface EarlierAcceptance extends Omit<AcceptanceRecord, 'state' | 'atMs' | 'waits'> {
  readonly startedAtMs: number;
  /** `pending`: redeemed, and an operator of the inviting site must confirm. */
  readonly step: 'redeeming' | 'pending' | 'done' | 'refused';
}

export function readInvitation(record: InvitationRecord | EarlierInvitation): InvitationRecord {
  const { redeemed, ...rest } = record;
  return redeemed === undefined ? rest : { ...rest, redeemed: readRedemption(redeemed) };
}

function readRedemption(record: Redemption | EarlierRedemption): Redemption {
  if ('state' in record) return record;
  const { confirmed, over, ...rest } = record;
  const isConfirmed = rest.confirmation === undefined || confirmed === true;
  return { ...rest, state: over === true ? 'revoked' : isConfirmed ? 'accepted' : 'proposed' };
}

const stateOfStep: Readonly<Record<EarlierAcceptance['step'], HandshakeState>> = {
  redeeming: 'proposed',
  pending: 'proposed',
  done: 'accepted',
  refused: 'revoked',
};

export function readAcceptance(record: AcceptanceRecord | EarlierAcceptance): AcceptanceRecord {
  if ('state' in record) return record;
  const { step, startedAtMs: atMs, ...rest } = record;
  const state = stateOfStep[step];
  return { ...rest, atMs, state, ...(step === 'pending' ? { waits: true } : {}) };
}
