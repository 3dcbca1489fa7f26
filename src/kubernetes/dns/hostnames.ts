// The DNS names that users give federated Services: as a list in an annotation, or by the template of the
// site. Pure.

import { ValueProblem } from '../../core/config/config-values.ts';
import { excerpt } from '../../api/values/trust-domain.ts';
import { manager } from '../names.ts';
import type { FederatedRef } from '../services/federated-name.ts';

/** So many names of the greatest length fit into what the plane reads of an annotation. */
const mostNames = 4;
/**
 * ExternalDNS writes a TXT record beside each name: its `--txt-prefix` and the type of the record stand before the
 * first label. If that name is too long, ExternalDNS publishes the record without an owner, and then neither changes
 * nor deletes it. This is room for `cname-` and ten characters of a prefix.
 */
const ownerLength = 16;
const maxLength = 253 - ownerLength;
const maxFirstLabel = 63 - ownerLength;
const label = '[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?';
const legal = new RegExp(`^(?:${label}\\.)+${label}$`);

export interface Hostnames {
  /** In lower case, without the dot of the root. */
  readonly names: readonly string[];
  /** What is wrong with the rest. */
  readonly problems: readonly string[];
}

/** Names with commas between them, as ExternalDNS reads them. An empty text asks for no name. */
export function parseHostnames(text: string): Hostnames {
  const names = new Set<string>();
  const problems: string[] = [];
  if (text.trim() === '') return { names: [], problems };
  for (const part of text.split(',')) {
    const name = part.trim().toLowerCase().replace(/\.$/, '');
    const problem = hostnameProblem(name);
    if (problem !== undefined) problems.push(problem);
    else names.add(name);
  }
  const kept = [...names].slice(0, mostNames);
  if (names.size > mostNames) {
    problems.push(`A Service has at most ${mostNames} names, so the others are left out.`);
  }
  return { names: kept, problems: problems.slice(0, mostNames) };
}

/** RFC 1123 §2.1. A name whose last label is a number could be taken for an address. */
function hostnameProblem(name: string): string | undefined {
  const shown = JSON.stringify(excerpt(name));
  if (name.includes('*')) {
    return `${shown} is refused: a wildcard would answer for names of other Services. Write each name.`;
  }
  if (name.length > maxLength) {
    return `${shown} is refused: it has ${name.length} characters. Use at most ${maxLength}, because ExternalDNS writes a longer name beside it.`;
  }
  if (!legal.test(name) || /(?:^|\.)\d+$/.test(name)) {
    return `${shown} is refused: it is no DNS name. Use labels of at most 63 letters, digits and hyphens, at least two, with dots between them.`;
  }
  if (name.indexOf('.') > maxFirstLabel) {
    return `${shown} is refused: its first label has ${name.indexOf('.')} characters. Use at most ${maxFirstLabel}, because ExternalDNS writes a longer name beside it.`;
  }
  return undefined;
}

/** ExternalDNS writes it with a slash at the end. Throws a ValueProblem. */
export function parseAnnotationPrefix(text: string): string {
  const prefix = text.replace(/\/$/, '');
  // There, `hostname` already means something else.
  if (prefix === manager || parseHostnames(prefix).names[0] !== prefix) {
    throw new ValueProblem('the prefix of an annotation, for example external-dns.example.com');
  }
  return prefix;
}

const placeholders = ['{name}', '{namespace}'] as const;

/** Makes the name of a federated Service out of its own name and its namespace. */
export class HostnameTemplate {
  readonly text: string;
  readonly #form: RegExp;

  private constructor(text: string) {
    this.text = text;
    const literal = text.replaceAll(/[.*+?^$()|[\]\\]/g, '\\$&');
    this.#form = new RegExp(
      `^${placeholders.reduce((form, each) => form.replace(each, `(?:${label})`), literal)}$`,
    );
  }

  /** Throws a ValueProblem. */
  static parse(text: string): HostnameTemplate {
    const sample = expanded(text, 'a', 'a');
    const isOnce = placeholders.every((each) => text.split(each).length <= 2);
    if (!text.includes('{name}') || !isOnce || parseHostnames(sample).names[0] !== sample) {
      throw new ValueProblem(
        'a DNS name in lower case with {name}, and with {namespace} where needed, for example {name}.{namespace}.fed.example',
      );
    }
    return new HostnameTemplate(text);
  }

  /** The result can be too long. */
  nameOf({ name, namespace }: FederatedRef): Hostnames {
    return parseHostnames(expanded(this.text, name, namespace));
  }

  /** Whether it makes this name for some other Service. Such a name cannot be had by hand. */
  isReserved(hostname: string, { name, namespace }: FederatedRef): boolean {
    return this.#form.test(hostname) && expanded(this.text, name, namespace) !== hostname;
  }
}

function expanded(text: string, name: string, namespace: string): string {
  return text.replace('{name}', name).replace('{namespace}', namespace);
}
