// Contacts, segments and their properties through the npm client `resend`, as a program that
// already uses it would see us. Started by ../run, which sets RESEND_BASE_URL and RESEND_API_KEY.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Resend } from 'resend';
import { ok, refused, TIME, UUID } from './answers.js';

const resend = new Resend(process.env.RESEND_API_KEY);
const address = (name = 'ada') => `${name}+${randomUUID()}@example.com`;

async function create(options) {
  const data = ok(await resend.contacts.create(options));
  assert.deepEqual(Object.keys(data).sort(), ['id', 'object']);
  assert.equal(data.object, 'contact');
  assert.match(data.id, UUID);
  return data.id;
}

async function segment(name = 'Newsletter') {
  const data = ok(await resend.segments.create({ name }));
  assert.equal(data.object, 'segment');
  assert.equal(data.name, name);
  assert.match(data.id, UUID);
  return data.id;
}

const idsOf = (list) => list.data.map((item) => item.id);
const key = () => `k_${randomUUID().replaceAll('-', '')}`;

test('a contact is created and read back by id and by address', async () => {
  const email = address();
  const id = await create({
    email,
    firstName: 'Ada',
    lastName: 'Lovelace',
    unsubscribed: false,
    properties: { company: 'Engines', seats: 3, gone: null },
  });
  for (const who of [id, email, email.toUpperCase(), { id }, { email }]) {
    const contact = ok(await resend.contacts.get(who));
    assert.equal(contact.object, 'contact');
    assert.equal(contact.id, id);
    assert.equal(contact.email, email);
    assert.equal(contact.first_name, 'Ada');
    assert.equal(contact.last_name, 'Lovelace');
    assert.equal(contact.unsubscribed, false);
    assert.match(contact.created_at, TIME);
    assert.deepEqual(contact.properties, {
      company: { type: 'string', value: 'Engines' },
      seats: { type: 'number', value: 3 },
    });
  }
});

test('an address is enough', async () => {
  const id = await create({ email: address() });
  const contact = ok(await resend.contacts.get(id));
  assert.equal(contact.first_name, null);
  assert.equal(contact.last_name, null);
  assert.equal(contact.unsubscribed, false);
  assert.deepEqual(contact.properties, {});
});

for (const local of ['plain', "o'hara", 'a.b-c_d', 'x=y', '1!2$3*4', 'Grüße', 'tag+tag+tag']) {
  test(`the address ${local}@… goes through a path as it is`, async () => {
    const email = address(local);
    const id = await create({ email });
    assert.equal(ok(await resend.contacts.get({ email })).id, id);
    assert.equal(ok(await resend.contacts.update({ email, firstName: 'X' })).id, id);
    assert.equal(ok(await resend.contacts.remove({ email })).contact, id);
    refused(await resend.contacts.get({ email }), 404, 'not_found');
  });
}

test('an address that is there already is a conflict that names the contact', async () => {
  const email = address();
  const id = await create({ email, firstName: 'First' });
  const message = refused(await resend.contacts.create({ email: email.toUpperCase() }), 409, 'validation_error');
  assert.ok(message.includes(id), message);
  assert.equal(ok(await resend.contacts.get(id)).first_name, 'First');
});

test('an update changes what it names, null clears a name, and properties are merged', async () => {
  const email = address();
  const id = await create({ email, firstName: 'A', lastName: 'B', properties: { keep: 'x', drop: 1 } });
  const answer = ok(
    await resend.contacts.update({ id, firstName: null, unsubscribed: true, properties: { drop: null, flag: true } }),
  );
  assert.deepEqual(answer, { object: 'contact', id });
  const contact = ok(await resend.contacts.get(id));
  assert.equal(contact.first_name, null);
  assert.equal(contact.last_name, 'B');
  assert.equal(contact.unsubscribed, true);
  assert.deepEqual(contact.properties, {
    keep: { type: 'string', value: 'x' },
    flag: { type: 'boolean', value: true },
  });
  ok(await resend.contacts.update({ email, unsubscribed: false }));
  assert.equal(ok(await resend.contacts.get(email)).unsubscribed, false);
  ok(await resend.contacts.update({ id }));
});

test('updates at the same time are all there in the end', async () => {
  const id = await create({ email: address() });
  const updates = Array.from({ length: 6 }, (_, n) => resend.contacts.update({ id, properties: { [`p${n}`]: n } }));
  for (const answer of await Promise.all(updates)) ok(answer);
  assert.equal(Object.keys(ok(await resend.contacts.get(id)).properties).length, 6);
});

test('removing says so, and then the contact is gone', async () => {
  const email = address();
  const id = await create({ email });
  assert.deepEqual(ok(await resend.contacts.remove(id)), { object: 'contact', id, contact: id, deleted: true });
  for (const who of [id, email]) refused(await resend.contacts.get(who), 404, 'not_found');
  refused(await resend.contacts.update({ id, firstName: 'x' }), 404, 'not_found');
  refused(await resend.contacts.remove({ email }), 404, 'not_found');
});

for (const [what, options] of [
  ['no address', {}],
  ['what is no address', { email: 'nobody' }],
  ['an address with a name', { email: 'Ada <ada@example.com>' }],
  ['nested properties', { email: address(), properties: { a: { b: 1 } } }],
  ['a flag that is text', { email: address(), unsubscribed: 'no' }],
]) {
  test(`creating with ${what} is refused`, async () => {
    const { error } = await resend.contacts.create(options);
    assert.equal(error.statusCode, 422);
  });
}

test('lists are paged, and a segment has a list of its own', async () => {
  const home = await segment();
  const made = [];
  for (let i = 0; i < 5; i++) made.unshift(await create({ email: address(), segments: [{ id: home }] }));
  const everyone = ok(await resend.contacts.list({ limit: 5 }));
  assert.equal(everyone.object, 'list');
  assert.deepEqual(idsOf(everyone), made);
  assert.deepEqual(Object.keys(everyone.data[0]).sort(), [
    'created_at', 'email', 'first_name', 'id', 'last_name', 'unsubscribed', 'updated_at',
  ]);
  for (const option of ['segmentId', 'audienceId']) {
    assert.deepEqual(idsOf(ok(await resend.contacts.list({ [option]: home }))), made);
    const page = ok(await resend.contacts.list({ [option]: home, limit: 2, after: made[0] }));
    assert.deepEqual(idsOf(page), made.slice(1, 3));
    assert.equal(page.has_more, true);
  }
  refused(await resend.contacts.list({ segmentId: randomUUID() }), 404, 'not_found');
});

test('a contact is put into segments and taken out, by id and by address', async () => {
  const [one, two] = [await segment('One'), await segment('Two')];
  const email = address();
  const contactId = await create({ email });
  assert.equal(ok(await resend.contacts.segments.add({ contactId, segmentId: one })).id, one);
  assert.equal(ok(await resend.contacts.segments.add({ email, segmentId: two })).segment_id, two);
  const list = ok(await resend.contacts.segments.list({ email }));
  assert.deepEqual(list.data.map((item) => item.name), ['Two', 'One']);
  assert.deepEqual(idsOf(ok(await resend.contacts.segments.list({ contactId, limit: 1 }))), [two]);
  const removed = ok(await resend.contacts.segments.remove({ email, segmentId: one }));
  assert.equal(removed.id, one);
  assert.equal(removed.audienceId, one);
  assert.equal(removed.contact_id, contactId);
  assert.equal(removed.deleted, true);
  refused(await resend.contacts.segments.remove({ contactId, segmentId: one }), 404, 'not_found');
  refused(await resend.contacts.segments.add({ contactId, segmentId: randomUUID() }), 404, 'not_found');
  refused(await resend.contacts.segments.add({ contactId, segmentId: 'x' }), 422, 'invalid_parameter');
  assert.deepEqual(idsOf(ok(await resend.contacts.segments.list({ contactId }))), [two]);
});

test('a contact whose segment is not there is not created', async () => {
  const email = address();
  refused(await resend.contacts.create({ email, segments: [{ id: randomUUID() }] }), 404, 'not_found');
  refused(await resend.contacts.get(email), 404, 'not_found');
});

test('a segment is created, read, listed, renamed and removed', async () => {
  const id = await segment('First name');
  const found = ok(await resend.segments.get(id));
  assert.equal(found.object, 'segment');
  assert.equal(found.name, 'First name');
  assert.match(found.created_at, TIME);
  assert.deepEqual(ok(await resend.segments.update(id, { name: 'Second name' })), { object: 'segment', id });
  const [newest] = ok(await resend.segments.list({ limit: 1 })).data;
  assert.deepEqual(Object.keys(newest).sort(), ['created_at', 'id', 'name']);
  assert.equal(newest.name, 'Second name');
  assert.deepEqual(ok(await resend.segments.remove(id)), { object: 'segment', id, deleted: true });
  refused(await resend.segments.get(id), 404, 'not_found');
  refused(await resend.segments.create({}), 422, 'missing_required_field');
});

test('a segment with a filter fills itself', async () => {
  const name = `Seg${randomUUID().slice(0, 8)}`;
  const rule = (value) => ({ type: 'rule', field: 'contact.first_name', operator: 'eq', value });
  const { id } = ok(await resend.segments.create({ name, filter: rule(name) }));
  const made = await create({ email: address(), firstName: name });
  await create({ email: address(), firstName: 'Other' });
  const found = ok(await resend.segments.get(id));
  assert.deepEqual(found.filter, rule(name));
  assert.deepEqual(idsOf(ok(await resend.contacts.list({ segmentId: id }))), [made]);
  refused(await resend.contacts.segments.add({ contactId: made, segmentId: id }), 422, 'validation_error');
  ok(await resend.contacts.update({ id: made, firstName: 'Another' }));
  assert.deepEqual(idsOf(ok(await resend.contacts.list({ segmentId: id }))), []);
  assert.deepEqual(ok(await resend.segments.update(id, { name, filter: null })), { object: 'segment', id });
  assert.equal(ok(await resend.segments.get(id)).filter, null);
  refused(await resend.segments.create({ name, filter: { type: 'rule', field: 'plan' } }), 422, 'validation_error');
  ok(await resend.segments.remove(id));
});

test('audiences still work', async () => {
  const audience = ok(await resend.audiences.create({ name: 'Old friends' }));
  const email = address();
  const id = await create({ audienceId: audience.id, email, firstName: 'Old' });
  assert.equal(ok(await resend.contacts.get({ audienceId: audience.id, email })).id, id);
  ok(await resend.contacts.update({ audienceId: audience.id, id, lastName: 'Friend' }));
  assert.equal(ok(await resend.contacts.get({ audienceId: audience.id, id })).last_name, 'Friend');
  assert.equal(ok(await resend.contacts.remove({ audienceId: audience.id, email })).deleted, true);
  refused(await resend.contacts.get({ audienceId: audience.id, email }), 404, 'not_found');
  assert.equal(ok(await resend.audiences.remove(audience.id)).deleted, true);
});

test('a property is declared, read, listed, changed and removed', async () => {
  const name = key();
  const created = ok(await resend.contactProperties.create({ key: name, type: 'string', fallbackValue: 'a company' }));
  assert.equal(created.object, 'contact_property');
  const { id } = created;
  const found = ok(await resend.contactProperties.get(id));
  assert.equal(found.object, 'contact_property');
  assert.equal(found.key, name);
  assert.equal(found.type, 'string');
  assert.equal(found.fallbackValue, 'a company');
  assert.match(found.createdAt, TIME);
  refused(await resend.contactProperties.create({ key: name, type: 'number' }), 409, 'validation_error');
  assert.deepEqual(ok(await resend.contactProperties.update({ id, fallbackValue: null })), {
    object: 'contact_property',
    id,
  });
  const [newest] = ok(await resend.contactProperties.list({ limit: 1 })).data;
  assert.equal(newest.key, name);
  assert.equal(newest.fallbackValue, null);
  refused(await resend.contactProperties.update({ id, fallbackValue: 7 }), 422, 'validation_error');
  assert.equal(ok(await resend.contactProperties.remove(id)).deleted, true);
  refused(await resend.contactProperties.get(id), 404, 'not_found');
});

test('a declared property holds contacts to its type', async () => {
  const seats = key();
  ok(await resend.contactProperties.create({ key: seats, type: 'number' }));
  const bad = await resend.contacts.create({ email: address(), properties: { [seats]: 'three' } });
  assert.ok(refused(bad, 422, 'validation_error').includes(seats));
  const id = await create({ email: address(), properties: { [seats]: 3 } });
  assert.equal(ok(await resend.contacts.get(id)).properties[seats].value, 3);
});
