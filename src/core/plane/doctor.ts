// The checks that a plane adds to `hansa doctor`, and the findings that they return. Several planes may
// add checks to one subject, such as a peer.

import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Clock } from '../clock/clock.ts';
import type { SiteClient } from './site-client.ts';

export interface Finding {
  readonly check: string;
  /** Only a problem changes the exit code. */
  readonly level: 'ok' | 'warning' | 'problem';
  readonly text: string;
  readonly remedy?: string;
}

export const ok = (check: string, text: string): Finding => ({ check, level: 'ok', text });

export const warning = (check: string, text: string, remedy: string): Finding => ({
  check,
  level: 'warning',
  text,
  remedy,
});

export const problem = (check: string, text: string, remedy: string): Finding => ({
  check,
  level: 'problem',
  text,
  remedy,
});

/** The input of a check. */
export interface SiteVisit<Settings = unknown> {
  readonly client: SiteClient;
  readonly clock: Clock;
  /** Whether the daemon answers. */
  readonly running: boolean;
  /** The plane's settings, as `hansa server` would read them; undefined for a site that is reached by URL. */
  readonly settings: Settings | undefined;
  /**
   * The listeners of the running site by name, with their addresses. On the machine of the site they
   * are URLs that this machine can reach.
   */
  readonly listeners: () => Promise<ReadonlyMap<string, string>>;
}

/** A check of the site as a whole. It changes nothing. An error that it throws becomes a finding. */
export interface SiteCheck<Settings = unknown> {
  readonly name: string;
  /** The check after which it is shown; the last one if there is no such check. */
  readonly follows?: string;
  run(visit: SiteVisit<Settings>): Promise<readonly Finding[]>;
}

/** Something that `hansa doctor` examines instead of the site, named by a flag. */
export interface DoctorSubject {
  readonly flag: string;
  readonly placeholder: string;
  readonly description: string;
  /** For the help of `hansa doctor`, in lines of up to 100 characters. */
  readonly help: string;
  readonly example: string;
  /** The command that lists names of subjects with `-o name`, for completion. */
  readonly listedBy: string;
  /** Parses the user's input; throws where it cannot name such a subject. */
  parse(text: string): string;
}

/** Another trust domain that this site is related to. Several planes know something about it. */
export const peerSubject: DoctorSubject = {
  flag: 'peer',
  placeholder: 'trust-domain',
  description: 'check the connection to this peer or federation instead',
  help: `With --peer, the running site calls the endpoint of that peer or SPIFFEFederation once, as for a
refresh, and reports each step: name, address, identity of the server, bundle. It changes nothing.
With --site, this needs the right to update that SPIFFEFederation.`,
  example: '--peer bruges.example',
  listedBy: 'get spiffefederations',
  parse: (text) => TrustDomain.parse(text).name,
};

/** A check of one subject. An error that it throws ends the command. */
export interface SubjectCheck {
  readonly subject: DoctorSubject;
  readonly name: string;
  /** As for a check of the site. */
  readonly follows?: string;
  /** What the plane calls such a subject, and how to list those that exist. */
  readonly what: string;
  readonly listedBy: string;
  /** Undefined where the plane knows no subject of this name. */
  run(
    visit: Pick<SiteVisit, 'client' | 'clock'>,
    name: string,
  ): Promise<readonly Finding[] | undefined>;
}

/** Checks in the order of their output: each after the one that it follows. */
export function inOrder<C extends { readonly name: string; readonly follows?: string }>(
  checks: readonly C[],
): C[] {
  const placed = checks.filter(({ follows }) => follows === undefined);
  for (const check of checks) {
    if (check.follows === undefined) continue;
    const at = placed.findLastIndex(
      ({ name, follows }) => name === check.follows || follows === check.follows,
    );
    placed.splice(at < 0 ? placed.length : at + 1, 0, check);
  }
  return placed;
}
