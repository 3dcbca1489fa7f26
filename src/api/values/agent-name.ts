// Names of agents: one segment of a SPIFFE ID's path, in lower case.

/** The Agent that stands for the machine of the site itself. No machine can join under this name. */
export const siteAgentName = 'site';

/** At most 63 characters, as in the identity spiffe://TRUST-DOMAIN/hansa/agent/NAME. */
export const agentNamePattern = '^[a-z0-9]([-._a-z0-9]{0,61}[a-z0-9])?$';

export const agentNameRule =
  'at most 63 lower-case letters, digits, ".", "-" and "_", with a letter or digit at both ends';

const grammar = new RegExp(agentNamePattern);

export function isAgentName(text: string): boolean {
  return grammar.test(text);
}
