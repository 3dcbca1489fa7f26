// Programs on this machine that ask without a credential, where the setting `auth.anonymous` allows it. Pure.

import { anonymous, type Caller } from '../../core/access/identity.ts';
import type { PresetBinding } from '../../core/access/presets.ts';
import type { PresentedCredential } from '../../core/plane/route.ts';
import { tokenReviewerRole } from './token-reviewer-role.ts';

/** No credential maps to this group: only the setting does. */
const localProgramsGroup = 'hansa:local-programs';

export const localProgram: Caller = {
  user: anonymous.user,
  groups: [...anonymous.groups, localProgramsGroup],
  via: 'anonymous',
};

/** Without the setting, no caller is in the group. */
export const localProgramsBinding: PresetBinding = {
  name: 'hansa-local-programs',
  role: tokenReviewerRole.name,
  subjects: [{ kind: 'Group', name: localProgramsGroup }],
};

/** A proxy on this machine adds one of these for a client that may be anywhere. */
const forwardingHeaders = ['x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'forwarded', 'via'];

export function isLocalProgram({
  address,
  headers,
  hasCertificate,
}: Pick<PresentedCredential, 'address' | 'headers' | 'hasCertificate'>): boolean {
  // A wrong credential is an error, not the absence of one.
  if (hasCertificate || headers.authorization !== undefined) return false;
  if (address === undefined || !isLoopback(address)) return false;
  return forwardingHeaders.every((name) => headers[name] === undefined);
}

function isLoopback(address: string): boolean {
  return address === '::1' || /^(?:::ffff:)?127\.\d+\.\d+\.\d+$/.test(address);
}
