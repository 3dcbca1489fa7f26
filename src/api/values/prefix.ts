// Ranges of addresses (CIDR, RFC 4632 and RFC 4291 §2.3). An instance is always valid, because only
// `parse` creates it.

import { HansaError } from '../../core/errors/error.ts';
import { excerpt } from './trust-domain.ts';

/** An address as a number, with the number of bits that its family has. */
interface Address {
  readonly bits: 32 | 128;
  readonly value: bigint;
}

export class Prefix {
  /** The number of bits that all addresses of the range share. */
  readonly length: number;
  readonly #address: Address;
  readonly #text: string;

  private constructor(address: Address, length: number, text: string) {
    this.#address = address;
    this.length = length;
    this.#text = text;
  }

  /** What is wrong with a range, in a few words; undefined if nothing is. */
  static problem(text: string): string | undefined {
    const read = readPrefix(text);
    return typeof read === 'string' ? read : undefined;
  }

  /** Reads `10.0.0.0/8` or `2001:db8::/32`; throws HANSA_BAD_REQUEST. */
  static parse(text: string): Prefix {
    const read = readPrefix(text);
    if (typeof read === 'string') {
      throw new HansaError(
        'HANSA_BAD_REQUEST',
        `${JSON.stringify(excerpt(text))} is not a range of addresses: ${read}.`,
      );
    }
    return new Prefix(read.address, read.length, text);
  }

  /**
   * Whether an address is in the range. An IPv4 address that a socket shows as IPv6
   * (`::ffff:192.0.2.1`, RFC 4291 §2.5.5.2) is the IPv4 address; what is no address is in no range.
   */
  contains(text: string): boolean {
    const address = readAddress(text);
    if (address === undefined) return false;
    const plain = unmapped(address);
    if (plain.bits !== this.#address.bits) return false;
    const shift = BigInt(plain.bits - this.length);
    return plain.value >> shift === this.#address.value >> shift;
  }

  /** As it was written. */
  toString(): string {
    return this.#text;
  }
}

/** All addresses from `first` to `last`, as numbers of the family with so many bits. */
export interface AddressRange {
  readonly bits: 32 | 128;
  readonly first: bigint;
  readonly last: bigint;
}

/**
 * The range of an address or of a CIDR. Bits beyond the length are ignored, as Kubernetes and Antrea do in
 * policies. Undefined for other texts.
 */
export function addressRange(text: string): AddressRange | undefined {
  const [before = '', digits, ...rest] = text.split('/');
  const read = readAddress(before);
  if (read === undefined || rest.length > 0) return undefined;
  const { bits, value } = digits === undefined ? unmapped(read) : read;
  if (digits !== undefined && (!/^(?:0|[1-9]\d{0,2})$/.test(digits) || Number(digits) > bits)) {
    return undefined;
  }
  const host = (1n << BigInt(bits - Number(digits ?? bits))) - 1n;
  return { bits, first: value & ~host, last: value | host };
}

function readPrefix(text: string): { readonly address: Address; readonly length: number } | string {
  const slash = text.indexOf('/');
  if (slash === -1) return 'it has no length, as in 192.0.2.0/24';
  const address = readAddress(text.slice(0, slash));
  if (address === undefined) return 'what stands before its slash is not an IP address';
  const digits = text.slice(slash + 1);
  if (!/^(?:0|[1-9]\d{0,2})$/.test(digits) || Number(digits) > address.bits) {
    return `its length is not a number from 0 to ${address.bits}`;
  }
  const length = Number(digits);
  if ((address.value & ((1n << BigInt(address.bits - length)) - 1n)) !== 0n) {
    return 'its address has bits set beyond its length';
  }
  return { address, length };
}

function readAddress(text: string): Address | undefined {
  if (!text.includes(':')) {
    const value = readIpv4(text);
    return value === undefined ? undefined : { bits: 32, value };
  }
  const value = readIpv6(text);
  return value === undefined ? undefined : { bits: 128, value };
}

function readIpv4(text: string): bigint | undefined {
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text);
  if (match === null) return undefined;
  let value = 0n;
  for (const part of match.slice(1)) {
    // 010 is eight to some and ten to others.
    if (Number(part) > 255 || (part.length > 1 && part.startsWith('0'))) return undefined;
    value = (value << 8n) | BigInt(part);
  }
  return value;
}

/** RFC 4291 §2.2, all three forms; without a zone, which means nothing to others. */
function readIpv6(text: string): bigint | undefined {
  if (text.length > 45) return undefined;
  const halves = text.split('::');
  if (halves.length > 2) return undefined;
  const left = readGroups(halves[0] ?? '', halves.length === 1);
  const right = halves.length === 1 ? [] : readGroups(halves[1] ?? '', true);
  if (left === undefined || right === undefined) return undefined;
  const missing = 8 - left.length - right.length;
  if (halves.length === 1 ? missing !== 0 : missing < 1) return undefined;
  let value = 0n;
  for (const group of [...left, ...Array<bigint>(Math.max(missing, 0)).fill(0n), ...right]) {
    value = (value << 16n) | group;
  }
  return value;
}

/** The last 32 bits of an address may be written as IPv4. */
function readGroups(text: string, last: boolean): bigint[] | undefined {
  if (text === '') return [];
  const groups: bigint[] = [];
  const parts = text.split(':');
  for (const [index, part] of parts.entries()) {
    if (last && index === parts.length - 1 && part.includes('.')) {
      const tail = readIpv4(part);
      if (tail === undefined) return undefined;
      groups.push(tail >> 16n, tail & 0xffffn);
    } else if (/^[0-9a-fA-F]{1,4}$/.test(part)) {
      groups.push(BigInt(`0x${part}`));
    } else {
      return undefined;
    }
  }
  return groups;
}

function unmapped(address: Address): Address {
  return address.bits === 128 && address.value >> 32n === 0xffffn
    ? { bits: 32, value: address.value & 0xffff_ffffn }
    : address;
}
