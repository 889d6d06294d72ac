-- A store as version 1 of placet wrote it: three sessions, one of them over.
BEGIN TRANSACTION;
CREATE TABLE calls (
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    run TEXT NOT NULL,
    step INTEGER NOT NULL,
    place INTEGER NOT NULL,
    open INTEGER NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (tenant, session, run, step, place)
) STRICT, WITHOUT ROWID;
INSERT INTO "calls" VALUES('main','s1','run_1',1,0,0,'{"at":["run_1",1,0],"tool_call_id":"call_1_0","tool":"issue_refund","call_key":"593786bf640c71e31908afa77168bcfe6fe700b022a03c80e18ee845816129ad","kind":"effect","surface":"payments","order":3,"version":1,"action_ref":"06bb256432c3ddf77c5026fe7c984003","digest":"a8a1c03f3fea14e49124cb3dbcb38aeb541e3910dfdf0f90795489a0692607d4","generation":0,"foreign":0,"tool_fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","scope":["payments:refund"],"recovery":{},"approvers":["ann","bob"],"rule":"refunds","attempts":1,"asked":true,"display_ref":"ee2988370e7ab3f4b97ee5beda930791","state":{"is":"CallOver","code":"succeeded","told_ref":"edcbf008c874111cea92f332b53b86da"}}');
INSERT INTO "calls" VALUES('main','s1','run_1',2,0,0,'{"at":["run_1",2,0],"tool_call_id":"call_2_0","tool":"issue_refund","call_key":"ee5eb23724b28d0a45c37b67e0c8fcf98e7027a68c2d252431365698a3c690f6","kind":"effect","surface":"payments","order":11,"version":2,"action_ref":"5bf7d3676db1bd93671250461e44d153","digest":"0b93a15f3e12c1783708bfa942c903e40e70336aed0f8fae22e8b8232621a22a","generation":1,"foreign":1,"tool_fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","scope":["payments:refund"],"recovery":{},"approvers":["ann","bob"],"rule":"refunds","attempts":1,"asked":true,"edited_by":"ann","display_ref":"ee2988370e7ab3f4b97ee5beda930791","edits_ref":"80c5c91374531b7343a92967fe6530c1","proposed_key":"e0110112cfd78ed9c3e84612429a773f905d523c9cf90d1209136476377a6127","state":{"is":"CallOver","code":"tool_failed","told_ref":"754bc4c201c51fce02f54007165b8e45"}}');
INSERT INTO "calls" VALUES('main','s1','run_1',3,0,0,'{"at":["run_1",3,0],"tool_call_id":"call_3_0","tool":"issue_refund","call_key":"58288e422afc7cc4bd5b1f2c458c9fc391ab2d4adca5416b1fa2cce5b9b2ff24","kind":"effect","surface":"payments","order":22,"version":1,"action_ref":"d3768832ecfd844ead9c7abecb21faeb","digest":"a63ca690475036c5831ee1eec6db45236664f6928f3e4efd7ad8713cc9a50ca9","generation":2,"foreign":2,"tool_fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","scope":["payments:refund"],"recovery":{},"approvers":["ann","bob"],"rule":"refunds","asked":true,"display_ref":"ee2988370e7ab3f4b97ee5beda930791","state":{"is":"CallOver","code":"rejected","told_ref":"73b0601ab96a4982e57cb3f45ca3f9c4"}}');
INSERT INTO "calls" VALUES('main','s1','run_1',4,0,0,'{"at":["run_1",4,0],"tool_call_id":"call_4_0","tool":"issue_refund","call_key":"d1cdd4ba4a4b27860c9151f2a99204601855713e825e1487eebcb3725c131bbe","kind":"effect","surface":"payments","order":29,"version":1,"action_ref":"0b03f35196e934a081cbafdd045ec15d","digest":"6e52a96511ae6ec69ac7c80e0dea6597400a5b46c5d8865c6ff7929efa7afcaa","generation":2,"foreign":2,"tool_fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","scope":["payments:refund"],"recovery":{},"approvers":["ann","bob"],"rule":"small","display_ref":"ee2988370e7ab3f4b97ee5beda930791","state":{"is":"CallOver","code":"cancelled","told_ref":"224e6fc573daf914c492a8f6a7dfe383"}}');
INSERT INTO "calls" VALUES('main','s1','run_1',4,1,0,'{"at":["run_1",4,1],"tool_call_id":"call_4_1","tool":"issue_refund","call_key":"e2edd63a90a0ef9d3d1e26db4c2d707dbdb66b037da5c496691a0acc9b521275","kind":"read","surface":"","order":30,"version":0,"action_ref":"","digest":"","generation":0,"foreign":0,"tool_fingerprint":"","recovery":{},"approvers":[],"rule":"","state":{"is":"CallOver","code":"policy_denied","told_ref":"1bd7af5a73041747ceb5cea5dfad8d7d"}}');
INSERT INTO "calls" VALUES('main','s1','run_1',4,2,0,'{"at":["run_1",4,2],"tool_call_id":"call_4_2","tool":"issue_refund","call_key":"6d232123e06c4536c1bbae0fd87db31f5940b3b7e086f7e06d587dbf8db38d76","kind":"effect","surface":"payments","order":31,"version":1,"action_ref":"b1e00e0682321cbacba800b2cb03e4db","digest":"0831fc474ae9f632e5b9046640001ab48ae0e68a1d0a4500235ebc1365c99c86","generation":2,"foreign":2,"tool_fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","scope":["payments:refund"],"recovery":{},"approvers":["ann","bob"],"rule":"refunds","asked":true,"display_ref":"ee2988370e7ab3f4b97ee5beda930791","state":{"is":"CallOver","code":"cancelled","told_ref":"224e6fc573daf914c492a8f6a7dfe383"}}');
INSERT INTO "calls" VALUES('main','s2','child',1,0,1,'{"at":["child",1,0],"tool_call_id":"call_1_0","tool":"issue_refund","call_key":"7a05af476773d9953f4dbd072d9a05522d7eb1def22cbdc6d680ac439be2b253","kind":"effect","surface":"payments","order":12,"version":1,"action_ref":"bf2adb513761b1d61f13d242e4f35c26","digest":"0af6ce5fc3009563db1871fe0c29f8009851d71f54e13610ff165d96bdd8ac2e","generation":0,"foreign":0,"tool_fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","scope":["payments:refund"],"recovery":{},"approvers":["ann","bob"],"rule":"refunds","asked":true,"display_ref":"16fa45a5257a121e94d4f34a2d710728","state":{"is":"Asking","request":"rq_bl3m4x6dackwhwyyoh7a"}}');
INSERT INTO "calls" VALUES('main','s2','run_2',1,0,1,'{"at":["run_2",1,0],"tool_call_id":"call_1_0","tool":"issue_refund","call_key":"3a7e501c170f0ede0b8e0ae8ca420364532c192a0a8e01228e849f81ea5be10d","kind":"agent","surface":"payments","order":3,"version":1,"action_ref":"868d476380a281f4c472dbd3328f35fb","digest":"15245de05db6304cfd50ea7c7f6421bb50c1aaefdd636498ddcdefad9d0a3efb","generation":0,"foreign":0,"tool_fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","scope":["payments:refund"],"recovery":{},"approvers":["ann","bob"],"rule":"small","display_ref":"16fa45a5257a121e94d4f34a2d710728","state":{"is":"Delegated","child":"child"}}');
INSERT INTO "calls" VALUES('main','s2','run_2',1,1,0,'{"at":["run_2",1,1],"tool_call_id":"call_1_1","tool":"issue_refund","call_key":"e0a6dea77c2b283cdd41abf0f6059273e271ab89fe044f2e88f038ce8d6cbedc","kind":"read","surface":"payments","order":4,"version":1,"action_ref":"a121b099c1624b908a8fe70d2927afec","digest":"c2a4054b697755627e0f9f1dacbfde55995430f3f78fcdeb41e61804d8ec94fb","generation":0,"foreign":0,"tool_fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","scope":["payments:refund"],"recovery":{},"approvers":["ann","bob"],"rule":"small","display_ref":"16fa45a5257a121e94d4f34a2d710728","state":{"is":"CallOver","code":"succeeded","told_ref":"a5e95bc9d1e501da52054bb55d0d30e0"}}');
INSERT INTO "calls" VALUES('main','s2','run_2',1,2,0,'{"at":["run_2",1,2],"tool_call_id":"call_1_2","tool":"no_such_tool","call_key":"473a77855221acbfcd2959315c793af8d97a452ad94ad043f4ffd3e712bc94d8","kind":"read","surface":"","order":5,"version":0,"action_ref":"","digest":"","generation":0,"foreign":0,"tool_fingerprint":"","recovery":{},"approvers":[],"rule":"","state":{"is":"CallOver","code":"unknown_tool","told_ref":"5f14c7e618593daa0ea098b9e442b97d"}}');
INSERT INTO "calls" VALUES('main','s3','run_3',1,0,1,'{"at":["run_3",1,0],"tool_call_id":"call_1_0","tool":"issue_refund","call_key":"c6df4bdfc7962115d3c48a2309eb6617ae3dbbd14441b97f73cb9c293d415c43","kind":"effect","surface":"payments","order":2,"version":1,"action_ref":"d951c357f8ef3bb67d12554160fec00d","digest":"4e4100a5afc97646035090219ef6353a7ffc5132cd90b5167d782e8a19cdcfb9","generation":0,"foreign":0,"tool_fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","scope":["payments:refund"],"recovery":{"idempotent":true,"retries":1},"approvers":["ann","bob"],"rule":"small","display_ref":"074a464ffd6ba58baf0d609cbb771bd0","state":{"is":"Allowed"}}');
CREATE TABLE events (
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    hash BLOB NOT NULL,
    command_id TEXT NOT NULL,
    together INTEGER NOT NULL,
    PRIMARY KEY (tenant, session, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO "events" VALUES('main','s1',1,1772366400000000,'RunStarted','{"run":"run_1","agent":"clerk","requester":"rita","kind":"driven","max_steps":50,"message":"2059f0815e200b0c1c57bc5e3f53f76e"}',X'AC74B1CC203735A2E45685C982B334D3DB3AADFCE78241D8B54C82A9FD957C78','',2);
INSERT INTO "events" VALUES('main','s1',2,1772366400000000,'LeaseTaken','{"run":"run_1","holder":{"host":"desk","boot":"b1","pid":100,"started":"1"},"fence":1,"until":1772366460000000}',X'426772B250E9A68F4E4868D7515834DC9385BB9FC4AAFFBDB02A2DB46F522BE9','',0);
INSERT INTO "events" VALUES('main','s1',3,1772366400000000,'StepRecorded','{"run":"run_1","step":1,"entry":"d83703e3b054d81987d3e5068aa546c0","calls":1}',X'784BA40457A95D6FD467C58F819880DC125E66BE89B3D984C42629430292FC15','',4);
INSERT INTO "events" VALUES('main','s1',4,1772366400000000,'CallProposed','{"at":["run_1",1,0],"tool_call_id":"call_1_0","tool":"issue_refund","call_key":"593786bf640c71e31908afa77168bcfe6fe700b022a03c80e18ee845816129ad","kind":"effect","surface":"payments","version":1,"action":"06bb256432c3ddf77c5026fe7c984003","digest":"a8a1c03f3fea14e49124cb3dbcb38aeb541e3910dfdf0f90795489a0692607d4","generation":0,"tool_fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","scope":["payments:refund"],"recovery":{},"approvers":["ann","bob"],"rule":"refunds","display":"ee2988370e7ab3f4b97ee5beda930791"}',X'5E996D0FD2247567AC80231365EDEC20497BB9E1D9161E1167233D61F22076D5','',0);
INSERT INTO "events" VALUES('main','s1',5,1772366400000000,'RequestOpened','{"request":"rq_vcq4apz75ikojejezm63","kind":"approval","at":["run_1",1,0],"digest":"a8a1c03f3fea14e49124cb3dbcb38aeb541e3910dfdf0f90795489a0692607d4","tool":"issue_refund","needs":{"approvers":["ann","bob"]},"requester":"rita","deadline_at":1772370000000000,"rule":"refunds","policy_version":"p1","grounds":"efdcc42e59c2235dfc2ea0421cc596fb"}',X'BD4F704D985E9BB65B926817CC5890820773C98B2CC62D24F105E1D4E66549A9','',0);
INSERT INTO "events" VALUES('main','s1',6,1772366400000000,'LeaseReleased','{"run":"run_1"}',X'F76B2953F22EE3BD45E05504540F79BCB61C2BCA752897F8ACE2EA542A5FD86B','',0);
INSERT INTO "events" VALUES('main','s1',7,1772366400000000,'VoteCast','{"request":"rq_vcq4apz75ikojejezm63","by":"ann","digest":"a8a1c03f3fea14e49124cb3dbcb38aeb541e3910dfdf0f90795489a0692607d4","met":true}',X'975BC93C0925B10B17F8F7B32501EDCA858C44F6A887218A6FF56F1B9B065167','',1);
INSERT INTO "events" VALUES('main','s1',8,1772366400000000,'LeaseTaken','{"run":"run_1","holder":{"host":"desk","boot":"b1","pid":100,"started":"1"},"fence":2,"until":1772366460000000}',X'58967767600473FFF229944332650F9BA65842F3FB19B5393EAC81957A5F2069','',1);
INSERT INTO "events" VALUES('main','s1',9,1772366400000000,'AttemptBegun','{"at":["run_1",1,0],"attempt":1,"key":"ik_a8a1c03f3fea14e49124cb3dbcb38aeb","fence":2,"holder":{"host":"desk","boot":"b1","pid":100,"started":"1"},"surface":"payments","until":1772366730000000,"request":"rq_vcq4apz75ikojejezm63"}',X'553FF7F2939B6388327859D2D887997FF5CD18C7D86F8C428A3933AD7E0D72C6','',1);
INSERT INTO "events" VALUES('main','s1',10,1772366400000000,'CallEnded','{"at":["run_1",1,0],"tool_call_id":"call_1_0","tool":"issue_refund","call_key":"593786bf640c71e31908afa77168bcfe6fe700b022a03c80e18ee845816129ad","code":"succeeded","told":"edcbf008c874111cea92f332b53b86da","attempt":1}',X'26E7B3EEFDCD37309FD49F7992194263A7A9D47122393435C31FC408226D9A2D','',1);
INSERT INTO "events" VALUES('main','s1',11,1772366400000000,'StepRecorded','{"run":"run_1","step":2,"entry":"6191e7514b8a85d62b042cd1312f771c","calls":1}',X'B10861232D86FC0F1FD605704273C32911EBD9F7D1E73D1852F54AF63D09459D','',4);
INSERT INTO "events" VALUES('main','s1',12,1772366400000000,'CallProposed','{"at":["run_1",2,0],"tool_call_id":"call_2_0","tool":"issue_refund","call_key":"e0110112cfd78ed9c3e84612429a773f905d523c9cf90d1209136476377a6127","kind":"effect","surface":"payments","version":1,"action":"71cdb211102082bc90c4921b2bbc6127","digest":"b6ecf17d951aafe85cec5c9e6b1db66c07ec711b93b0453f035095f8049bc871","generation":1,"tool_fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","scope":["payments:refund"],"recovery":{},"approvers":["ann","bob"],"rule":"refunds","display":"ee2988370e7ab3f4b97ee5beda930791"}',X'CAF939BDF37012736E5B91507738230CAEE46D1705E716BC9A7335A24CD59BD8','',0);
INSERT INTO "events" VALUES('main','s1',13,1772366400000000,'RequestOpened','{"request":"rq_w3wpc7mvdkx6qxhmlspg","kind":"approval","at":["run_1",2,0],"digest":"b6ecf17d951aafe85cec5c9e6b1db66c07ec711b93b0453f035095f8049bc871","tool":"issue_refund","needs":{"approvers":["ann","bob"]},"requester":"rita","deadline_at":1772370000000000,"rule":"refunds","policy_version":"p1","grounds":"efdcc42e59c2235dfc2ea0421cc596fb"}',X'040F2312731C2AB659DE04893CAE8FB82449A271B97565F77814636DCBA6BF17','',0);
INSERT INTO "events" VALUES('main','s1',14,1772366400000000,'LeaseReleased','{"run":"run_1"}',X'34844B3ACFFD825A9888250EB5BF178151AAD0FB51200FB881C8A626852CC605','',0);
INSERT INTO "events" VALUES('main','s1',15,1772366400000000,'CallProposed','{"at":["run_1",2,0],"tool_call_id":"call_2_0","tool":"issue_refund","call_key":"ee5eb23724b28d0a45c37b67e0c8fcf98e7027a68c2d252431365698a3c690f6","kind":"effect","surface":"payments","version":2,"action":"5bf7d3676db1bd93671250461e44d153","digest":"0b93a15f3e12c1783708bfa942c903e40e70336aed0f8fae22e8b8232621a22a","generation":1,"tool_fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","scope":["payments:refund"],"recovery":{},"approvers":["ann","bob"],"rule":"refunds","display":"ee2988370e7ab3f4b97ee5beda930791"}',X'7F501E757D96AEAE00D2345EE07E2023F30C54E9CF4F02619B56CA3BA792CBF6','',4);
INSERT INTO "events" VALUES('main','s1',16,1772366400000000,'RequestOpened','{"request":"rq_boj2cxz6claxqnyix6uu","kind":"approval","at":["run_1",2,0],"digest":"0b93a15f3e12c1783708bfa942c903e40e70336aed0f8fae22e8b8232621a22a","tool":"issue_refund","needs":{"approvers":["ann","bob"]},"requester":"rita","deadline_at":1772370000000000,"rule":"refunds","policy_version":"p1","grounds":"efdcc42e59c2235dfc2ea0421cc596fb","replaces":"rq_w3wpc7mvdkx6qxhmlspg","changes":"80c5c91374531b7343a92967fe6530c1"}',X'764FE8C35237922CB3BB7B43604C25815228BB5A658E9972DD483D393276CC3D','',0);
INSERT INTO "events" VALUES('main','s1',17,1772366400000000,'RequestEdited','{"request":"rq_w3wpc7mvdkx6qxhmlspg","by":"ann","successor":"rq_boj2cxz6claxqnyix6uu"}',X'A064ABEA11653B53298B3AD538D004505E9698A7CE09CADACDD432A9EB0F3647','',0);
INSERT INTO "events" VALUES('main','s1',18,1772366400000000,'VoteCast','{"request":"rq_boj2cxz6claxqnyix6uu","by":"ann","digest":"0b93a15f3e12c1783708bfa942c903e40e70336aed0f8fae22e8b8232621a22a","met":true,"via":"edit"}',X'70E62CEF8287D23EC330D06D3222C6357CDA59FFCD237624AF4E8529EB8B48E2','',0);
INSERT INTO "events" VALUES('main','s1',19,1772366400000000,'LeaseTaken','{"run":"run_1","holder":{"host":"desk","boot":"b1","pid":100,"started":"1"},"fence":3,"until":1772366460000000}',X'FF47EB068FF143537114E6826797204F4C3D804FCA1B72FD887490A934E2052C','',1);
INSERT INTO "events" VALUES('main','s1',20,1772366400000000,'AttemptBegun','{"at":["run_1",2,0],"attempt":1,"key":"ik_0b93a15f3e12c1783708bfa942c903e4","fence":3,"holder":{"host":"desk","boot":"b1","pid":100,"started":"1"},"surface":"payments","until":1772366730000000,"request":"rq_boj2cxz6claxqnyix6uu"}',X'7C56343064F6E4FE6456094A0A3A4A58EBC35A344F69CC22D4C3E345575E1178','',1);
INSERT INTO "events" VALUES('main','s1',21,1772366400000000,'CallEnded','{"at":["run_1",2,0],"tool_call_id":"call_2_0","tool":"issue_refund","call_key":"ee5eb23724b28d0a45c37b67e0c8fcf98e7027a68c2d252431365698a3c690f6","code":"tool_failed","told":"754bc4c201c51fce02f54007165b8e45","attempt":1}',X'C25A9FDB369FDFD1FAE8C860F8AF304318404C9C57D8957C2DFA0275B874F0EA','',1);
INSERT INTO "events" VALUES('main','s1',22,1772366400000000,'StepRecorded','{"run":"run_1","step":3,"entry":"daec80fc76ae37d8251c359bb3e66870","calls":1}',X'38AB160C8BB5C907FDBADD3799FD94C4FBBCD97A484DC270AA237C6614E219A1','',4);
INSERT INTO "events" VALUES('main','s1',23,1772366400000000,'CallProposed','{"at":["run_1",3,0],"tool_call_id":"call_3_0","tool":"issue_refund","call_key":"58288e422afc7cc4bd5b1f2c458c9fc391ab2d4adca5416b1fa2cce5b9b2ff24","kind":"effect","surface":"payments","version":1,"action":"d3768832ecfd844ead9c7abecb21faeb","digest":"a63ca690475036c5831ee1eec6db45236664f6928f3e4efd7ad8713cc9a50ca9","generation":2,"tool_fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","scope":["payments:refund"],"recovery":{},"approvers":["ann","bob"],"rule":"refunds","display":"ee2988370e7ab3f4b97ee5beda930791"}',X'35DF24596336B24CF5A5BB00AE1291CC292546C8EA767812692865391B6AF1F0','',0);
INSERT INTO "events" VALUES('main','s1',24,1772366400000000,'RequestOpened','{"request":"rq_uy6knechka3mlay64hxm","kind":"approval","at":["run_1",3,0],"digest":"a63ca690475036c5831ee1eec6db45236664f6928f3e4efd7ad8713cc9a50ca9","tool":"issue_refund","needs":{"approvers":["ann","bob"]},"requester":"rita","deadline_at":1772370000000000,"rule":"refunds","policy_version":"p1","grounds":"efdcc42e59c2235dfc2ea0421cc596fb"}',X'49CF4E93062829AE961C8AF9031E79CDE321C10952ECA33E9D06E21FCE2C2FC8','',0);
INSERT INTO "events" VALUES('main','s1',25,1772366400000000,'LeaseReleased','{"run":"run_1"}',X'3CD09D6A1264D468CE6DB846183E56864257057F3C5795C47DFCA1D6F87994B6','',0);
INSERT INTO "events" VALUES('main','s1',26,1772366400000000,'RequestRejected','{"request":"rq_uy6knechka3mlay64hxm","by":"ann","reason":"991d7eb2c0750c76baf0195ea197b609"}',X'2BDB895B1AE4B5082124EBEA9D3AD73EAE2F9176061B0CACBAFF8CE0EE89E3D8','',2);
INSERT INTO "events" VALUES('main','s1',27,1772366400000000,'CallEnded','{"at":["run_1",3,0],"tool_call_id":"call_3_0","tool":"issue_refund","call_key":"58288e422afc7cc4bd5b1f2c458c9fc391ab2d4adca5416b1fa2cce5b9b2ff24","code":"rejected","told":"73b0601ab96a4982e57cb3f45ca3f9c4","by":"ann"}',X'D75B8BE3547152F3A94A931301A04EB6FE1DFD7158AE3851DE0BA1283AD2A6A7','',0);
INSERT INTO "events" VALUES('main','s1',28,1772366400000000,'LeaseTaken','{"run":"run_1","holder":{"host":"desk","boot":"b1","pid":100,"started":"1"},"fence":4,"until":1772366460000000}',X'F95676F60BFB964B6D79025EA9A35E98A93E23573F9A8E2E77F9C4BA0EB0DABE','',1);
INSERT INTO "events" VALUES('main','s1',29,1772366400000000,'StepRecorded','{"run":"run_1","step":4,"entry":"4268bc13217ee4ee96dbb5c70c68d0b3","calls":3}',X'C56EB8498A02581FD8570AA71D6609635FBAD29C63716C3C90699D38C2ED9AEA','',6);
INSERT INTO "events" VALUES('main','s1',30,1772366400000000,'CallProposed','{"at":["run_1",4,0],"tool_call_id":"call_4_0","tool":"issue_refund","call_key":"d1cdd4ba4a4b27860c9151f2a99204601855713e825e1487eebcb3725c131bbe","kind":"effect","surface":"payments","version":1,"action":"0b03f35196e934a081cbafdd045ec15d","digest":"6e52a96511ae6ec69ac7c80e0dea6597400a5b46c5d8865c6ff7929efa7afcaa","generation":2,"tool_fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","scope":["payments:refund"],"recovery":{},"approvers":["ann","bob"],"rule":"small","display":"ee2988370e7ab3f4b97ee5beda930791"}',X'32789FCF6C6C151E572E753FF66216759642FDCA385BF6461F524EA9E75B9A6D','',0);
INSERT INTO "events" VALUES('main','s1',31,1772366400000000,'CallEnded','{"at":["run_1",4,1],"tool_call_id":"call_4_1","tool":"issue_refund","call_key":"e2edd63a90a0ef9d3d1e26db4c2d707dbdb66b037da5c496691a0acc9b521275","code":"policy_denied","told":"1bd7af5a73041747ceb5cea5dfad8d7d"}',X'564F6D358A553A8AEE15C94126E34523B62951907C95AF5D485964A188683AAE','',0);
INSERT INTO "events" VALUES('main','s1',32,1772366400000000,'CallProposed','{"at":["run_1",4,2],"tool_call_id":"call_4_2","tool":"issue_refund","call_key":"6d232123e06c4536c1bbae0fd87db31f5940b3b7e086f7e06d587dbf8db38d76","kind":"effect","surface":"payments","version":1,"action":"b1e00e0682321cbacba800b2cb03e4db","digest":"0831fc474ae9f632e5b9046640001ab48ae0e68a1d0a4500235ebc1365c99c86","generation":2,"tool_fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","scope":["payments:refund"],"recovery":{},"approvers":["ann","bob"],"rule":"refunds","display":"ee2988370e7ab3f4b97ee5beda930791"}',X'21C7FA6450AA677C4896AEAD29BF84CCBF0BFB17919EAF18752BD03A2527FCE1','',0);
INSERT INTO "events" VALUES('main','s1',33,1772366400000000,'RequestOpened','{"request":"rq_bay7yr2k5h3dfznzarte","kind":"approval","at":["run_1",4,2],"digest":"0831fc474ae9f632e5b9046640001ab48ae0e68a1d0a4500235ebc1365c99c86","tool":"issue_refund","needs":{"approvers":["ann","bob"]},"requester":"rita","deadline_at":1772370000000000,"rule":"refunds","policy_version":"p1","grounds":"efdcc42e59c2235dfc2ea0421cc596fb"}',X'40830754100B8995C7994892474B6C94673EB0D8E9D403F82A151BCE38D1C280','',0);
INSERT INTO "events" VALUES('main','s1',34,1772366400000000,'LeaseReleased','{"run":"run_1"}',X'741023CB36C192101871441DD6E9372F06246000423521B4805089C30F82B5AE','',0);
INSERT INTO "events" VALUES('main','s1',35,1772366400000000,'RunStopping','{"run":"run_1","stop":"cancelled","cause":"bob: enough"}',X'A52592CB0220A3F15731FC5E854F6AC5C34A12434F713B9A2A7E00C01EC59095','',5);
INSERT INTO "events" VALUES('main','s1',36,1772366400000000,'CallEnded','{"at":["run_1",4,0],"tool_call_id":"call_4_0","tool":"issue_refund","call_key":"d1cdd4ba4a4b27860c9151f2a99204601855713e825e1487eebcb3725c131bbe","code":"cancelled","told":"224e6fc573daf914c492a8f6a7dfe383"}',X'6BD4E85800E3DA8E33AB01588AB60A6CFFB793D7C4A97653F7C1B1F37BAE4143','',0);
INSERT INTO "events" VALUES('main','s1',37,1772366400000000,'RequestCancelled','{"request":"rq_bay7yr2k5h3dfznzarte","cause":"bob: enough"}',X'7D3FC94D8C4AA94FD481F4AA9E339274F4A0A82489B05B4EA8A1AEFA1AB20AF4','',0);
INSERT INTO "events" VALUES('main','s1',38,1772366400000000,'CallEnded','{"at":["run_1",4,2],"tool_call_id":"call_4_2","tool":"issue_refund","call_key":"6d232123e06c4536c1bbae0fd87db31f5940b3b7e086f7e06d587dbf8db38d76","code":"cancelled","told":"224e6fc573daf914c492a8f6a7dfe383"}',X'515BC092A0F3C43FDA1BF663C61F5899A37ACDCC22CA49C59A1A5C77C58DA8EE','',0);
INSERT INTO "events" VALUES('main','s1',39,1772366400000000,'RunEnded','{"run":"run_1","stop":"cancelled"}',X'5E6C3BCE46AB873D62962DC2946ADBE9B6042417B1F3D737FBB5CDBA3EB9E299','',0);
INSERT INTO "events" VALUES('main','s2',1,1772366400000000,'RunStarted','{"run":"run_2","agent":"clerk","requester":"rita","kind":"driven","max_steps":50,"message":"650ddb3a5369f4483a66bbe970602d2b"}',X'572D2F07F01DF0C8411EE725EB2D6E99FDFE35EC03DE7EF55C29A3546E23B573','',2);
INSERT INTO "events" VALUES('main','s2',2,1772366400000000,'LeaseTaken','{"run":"run_2","holder":{"host":"desk","boot":"b1","pid":100,"started":"1"},"fence":1,"until":1772366460000000}',X'D8B9928CCD1D68EA1AD78A78E066C7CDB40F54E0627A982964BB377DF8E711E9','',0);
INSERT INTO "events" VALUES('main','s2',3,1772366400000000,'StepRecorded','{"run":"run_2","step":1,"entry":"9462be42c34ef7e0b9d5a8e9f1c636cc","calls":3}',X'C209DB14D72A41E17BEE901675FC8CA1CB2CAFAE71609F4B096608DB705C08ED','',4);
INSERT INTO "events" VALUES('main','s2',4,1772366400000000,'CallProposed','{"at":["run_2",1,0],"tool_call_id":"call_1_0","tool":"issue_refund","call_key":"3a7e501c170f0ede0b8e0ae8ca420364532c192a0a8e01228e849f81ea5be10d","kind":"agent","surface":"payments","version":1,"action":"868d476380a281f4c472dbd3328f35fb","digest":"15245de05db6304cfd50ea7c7f6421bb50c1aaefdd636498ddcdefad9d0a3efb","generation":0,"tool_fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","scope":["payments:refund"],"recovery":{},"approvers":["ann","bob"],"rule":"small","display":"16fa45a5257a121e94d4f34a2d710728"}',X'ABCEFBCF1C06756781A6BB88BCD61C7066B642D7DCFD0F381338ECEB88137394','',0);
INSERT INTO "events" VALUES('main','s2',5,1772366400000000,'CallProposed','{"at":["run_2",1,1],"tool_call_id":"call_1_1","tool":"issue_refund","call_key":"e0a6dea77c2b283cdd41abf0f6059273e271ab89fe044f2e88f038ce8d6cbedc","kind":"read","surface":"payments","version":1,"action":"a121b099c1624b908a8fe70d2927afec","digest":"c2a4054b697755627e0f9f1dacbfde55995430f3f78fcdeb41e61804d8ec94fb","generation":0,"tool_fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","scope":["payments:refund"],"recovery":{},"approvers":["ann","bob"],"rule":"small","display":"16fa45a5257a121e94d4f34a2d710728"}',X'A058927A9C15302ED1C24662474EA801F767E5261CDE23C6055356804B4B8667','',0);
INSERT INTO "events" VALUES('main','s2',6,1772366400000000,'CallEnded','{"at":["run_2",1,2],"tool_call_id":"call_1_2","tool":"no_such_tool","call_key":"473a77855221acbfcd2959315c793af8d97a452ad94ad043f4ffd3e712bc94d8","code":"unknown_tool","told":"5f14c7e618593daa0ea098b9e442b97d","by":"runtime"}',X'AD2801A11C65484CC8B1C8F26D3CD2319820E55DCA0CC9E1BEDD8D9898B48399','',0);
INSERT INTO "events" VALUES('main','s2',7,1772366400000000,'CallEnded','{"at":["run_2",1,1],"tool_call_id":"call_1_1","tool":"issue_refund","call_key":"e0a6dea77c2b283cdd41abf0f6059273e271ab89fe044f2e88f038ce8d6cbedc","code":"succeeded","told":"a5e95bc9d1e501da52054bb55d0d30e0"}',X'D25ADA20D6E951529B75C02F57E8C25826C4717909CEDEAA1800265A5EC9284A','',1);
INSERT INTO "events" VALUES('main','s2',8,1772366400000000,'RunStarted','{"run":"child","agent":"clerk","requester":"rita","kind":"driven","max_steps":50,"message":"650ddb3a5369f4483a66bbe970602d2b","parent":["run_2",1,0]}',X'8F477ECD91C07509FAAAAEC5934E672776DF813679C649659C67131C51846187','',4);
INSERT INTO "events" VALUES('main','s2',9,1772366400000000,'CallDelegated','{"at":["run_2",1,0],"child":"child"}',X'B3B03FB0773095B8AF5733DF13FDEDCB4D0F0E1F8D146B57FC180A61308218D1','',0);
INSERT INTO "events" VALUES('main','s2',10,1772366400000000,'LeaseTaken','{"run":"child","holder":{"host":"desk","boot":"b1","pid":100,"started":"1"},"fence":1,"until":1772366460000000}',X'3F75568760B786E44DC2E2811AF0AFF322FF4D2EF106BF9A6C5BF4ED2F9D9B1D','',0);
INSERT INTO "events" VALUES('main','s2',11,1772366400000000,'LeaseReleased','{"run":"run_2"}',X'80A40DE9F858FC6FB9D0F5CCDD9E33E5932B5463DBABC87A4A1E9F62835B0AE7','',0);
INSERT INTO "events" VALUES('main','s2',12,1772366400000000,'StepRecorded','{"run":"child","step":1,"entry":"84cf44fe3ccbb2f9eac71a5e565541e4","calls":1}',X'F4D195AAA31C38DE3EBD5BE4E4E48A07F62A1DC7BAA9ACDBEF8795A6A12B6A0D','',4);
INSERT INTO "events" VALUES('main','s2',13,1772366400000000,'CallProposed','{"at":["child",1,0],"tool_call_id":"call_1_0","tool":"issue_refund","call_key":"7a05af476773d9953f4dbd072d9a05522d7eb1def22cbdc6d680ac439be2b253","kind":"effect","surface":"payments","version":1,"action":"bf2adb513761b1d61f13d242e4f35c26","digest":"0af6ce5fc3009563db1871fe0c29f8009851d71f54e13610ff165d96bdd8ac2e","generation":0,"tool_fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","scope":["payments:refund"],"recovery":{},"approvers":["ann","bob"],"rule":"refunds","display":"16fa45a5257a121e94d4f34a2d710728"}',X'148BBDBA01735E70BFB252272F550734E705FC77855B395BF9AE102AEE7B5CE6','',0);
INSERT INTO "events" VALUES('main','s2',14,1772366400000000,'RequestOpened','{"request":"rq_bl3m4x6dackwhwyyoh7a","kind":"approval","at":["child",1,0],"digest":"0af6ce5fc3009563db1871fe0c29f8009851d71f54e13610ff165d96bdd8ac2e","tool":"issue_refund","needs":{"approvers":["ann","bob"]},"requester":"rita","deadline_at":1772370000000000,"rule":"refunds","policy_version":"p1","grounds":"ca51a3f1c65c8325b0cebd7c3567f300"}',X'CF676D63EFB8E398E10AD430FF33790EF32B72D5987516D13D1677BBED5FB2FC','',0);
INSERT INTO "events" VALUES('main','s2',15,1772366400000000,'LeaseReleased','{"run":"child"}',X'373D5F4B49C19C208D76F69994E9FC5AE59F2F31EE50D718081935F207E2C917','',0);
INSERT INTO "events" VALUES('main','s3',1,1772366400000000,'RunStarted','{"run":"run_3","agent":"clerk","requester":"rita","kind":"hosted","max_steps":50,"message":"43a2b9dda1f1a6f8348daa0a9de5a9c8"}',X'9733503A3F79D94C2F547184AD868F452D52D4E0A523C6AC501F20FB1AE4D0A7','',1);
INSERT INTO "events" VALUES('main','s3',2,1772366400000000,'StepRecorded','{"run":"run_3","step":1,"entry":"0ec4bd583ffe64f6b5f462dd1505c3c8","calls":1}',X'55577CC4E142154CA0ABF2522E0B1579AE77E5A821928C917E33A38A49913C0A','',2);
INSERT INTO "events" VALUES('main','s3',3,1772366400000000,'CallProposed','{"at":["run_3",1,0],"tool_call_id":"call_1_0","tool":"issue_refund","call_key":"c6df4bdfc7962115d3c48a2309eb6617ae3dbbd14441b97f73cb9c293d415c43","kind":"effect","surface":"payments","version":1,"action":"d951c357f8ef3bb67d12554160fec00d","digest":"4e4100a5afc97646035090219ef6353a7ffc5132cd90b5167d782e8a19cdcfb9","generation":0,"tool_fingerprint":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","scope":["payments:refund"],"recovery":{"idempotent":true,"retries":1},"approvers":["ann","bob"],"rule":"small","display":"074a464ffd6ba58baf0d609cbb771bd0"}',X'540D0F3C1B1B2D0084074D6D3FACE3D3252ACFD01DC6B75C1FC3E7E831195CF7','',0);
CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "meta" VALUES('oldest_reader',1);
INSERT INTO "meta" VALUES('stamp',1772366400000000);
INSERT INTO "meta" VALUES('version',1);
CREATE TABLE noes (
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    run TEXT NOT NULL,
    call_key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (tenant, session, run, call_key)
) STRICT, WITHOUT ROWID;
INSERT INTO "noes" VALUES('main','s1','run_1','58288e422afc7cc4bd5b1f2c458c9fc391ab2d4adca5416b1fa2cce5b9b2ff24','{"run":"run_1","call_key":"58288e422afc7cc4bd5b1f2c458c9fc391ab2d4adca5416b1fa2cce5b9b2ff24","code":"rejected","told_ref":"73b0601ab96a4982e57cb3f45ca3f9c4","times":1}');
INSERT INTO "noes" VALUES('main','s1','run_1','e2edd63a90a0ef9d3d1e26db4c2d707dbdb66b037da5c496691a0acc9b521275','{"run":"run_1","call_key":"e2edd63a90a0ef9d3d1e26db4c2d707dbdb66b037da5c496691a0acc9b521275","code":"policy_denied","told_ref":"1bd7af5a73041747ceb5cea5dfad8d7d","times":1}');
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    request TEXT NOT NULL,
    kind TEXT NOT NULL
) STRICT;
INSERT INTO "outbox" VALUES(1,'main','s1','rq_vcq4apz75ikojejezm63','opened');
INSERT INTO "outbox" VALUES(2,'main','s1','rq_vcq4apz75ikojejezm63','closed');
INSERT INTO "outbox" VALUES(3,'main','s1','rq_w3wpc7mvdkx6qxhmlspg','opened');
INSERT INTO "outbox" VALUES(4,'main','s1','rq_boj2cxz6claxqnyix6uu','opened');
INSERT INTO "outbox" VALUES(5,'main','s1','rq_w3wpc7mvdkx6qxhmlspg','closed');
INSERT INTO "outbox" VALUES(6,'main','s1','rq_boj2cxz6claxqnyix6uu','closed');
INSERT INTO "outbox" VALUES(7,'main','s1','rq_uy6knechka3mlay64hxm','opened');
INSERT INTO "outbox" VALUES(8,'main','s1','rq_uy6knechka3mlay64hxm','closed');
INSERT INTO "outbox" VALUES(9,'main','s1','rq_bay7yr2k5h3dfznzarte','opened');
INSERT INTO "outbox" VALUES(10,'main','s1','rq_bay7yr2k5h3dfznzarte','closed');
INSERT INTO "outbox" VALUES(11,'main','s2','rq_bl3m4x6dackwhwyyoh7a','opened');
CREATE TABLE payloads (
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    ref BLOB NOT NULL,
    body ANY NOT NULL,
    PRIMARY KEY (tenant, session, ref)
) STRICT;
INSERT INTO "payloads" VALUES('main','s1',X'2059F0815E200B0C1C57BC5E3F53F76E','Refund 7.');
INSERT INTO "payloads" VALUES('main','s1',X'D83703E3B054D81987D3E5068AA546C0','{"step": 1}');
INSERT INTO "payloads" VALUES('main','s1',X'06BB256432C3DDF77C5026FE7C984003','{"tenant": "main", "session": "s1", "run": "run_1", "step": 1, "index": 0, "tool_call_id": "call_1_0", "tool": "issue_refund", "tool_fingerprint": "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", "arguments": {"order_id": "run_1/1/0"}, "scope": ["payments:refund"], "environment": "", "salt": "00000000000000000000000000000000"}');
INSERT INTO "payloads" VALUES('main','s1',X'EE2988370E7AB3F4B97EE5BEDA930791','{"effect": "", "reversible": false}');
INSERT INTO "payloads" VALUES('main','s1',X'EFDCC42E59C2235DFC2EA0421CC596FB','moves money');
INSERT INTO "payloads" VALUES('main','s1',X'EDCBF008C874111CEA92F332B53B86DA','Done.');
INSERT INTO "payloads" VALUES('main','s1',X'6191E7514B8A85D62B042CD1312F771C','{"step": 2}');
INSERT INTO "payloads" VALUES('main','s1',X'71CDB211102082BC90C4921B2BBC6127','{"tenant": "main", "session": "s1", "run": "run_1", "step": 2, "index": 0, "tool_call_id": "call_2_0", "tool": "issue_refund", "tool_fingerprint": "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", "arguments": {"order_id": "run_1/2/0"}, "scope": ["payments:refund"], "environment": "", "salt": "00000000000000000000000000000000"}');
INSERT INTO "payloads" VALUES('main','s1',X'5BF7D3676DB1BD93671250461E44D153','{"tenant": "main", "session": "s1", "run": "run_1", "step": 2, "index": 0, "tool_call_id": "call_2_0", "tool": "issue_refund", "tool_fingerprint": "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", "arguments": {"order_id": "8"}, "scope": ["payments:refund"], "environment": "", "salt": "11111111111111111111111111111111"}');
INSERT INTO "payloads" VALUES('main','s1',X'80C5C91374531B7343A92967FE6530C1','[{"name":"order_id","old":"7","new":"8"}]');
INSERT INTO "payloads" VALUES('main','s1',X'754BC4C201C51FCE02F54007165B8E45','Failed: no such order
It may have acted before it failed.');
INSERT INTO "payloads" VALUES('main','s1',X'DAEC80FC76AE37D8251C359BB3E66870','{"step": 3}');
INSERT INTO "payloads" VALUES('main','s1',X'D3768832ECFD844EAD9C7ABECB21FAEB','{"tenant": "main", "session": "s1", "run": "run_1", "step": 3, "index": 0, "tool_call_id": "call_3_0", "tool": "issue_refund", "tool_fingerprint": "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", "arguments": {"order_id": "run_1/3/0"}, "scope": ["payments:refund"], "environment": "", "salt": "00000000000000000000000000000000"}');
INSERT INTO "payloads" VALUES('main','s1',X'991D7EB2C0750C76BAF0195EA197B609','Too much.');
INSERT INTO "payloads" VALUES('main','s1',X'73B0601AB96A4982E57CB3F45CA3F9C4','Rejected by ann: Too much.
The call did not run. Do not propose it again.');
INSERT INTO "payloads" VALUES('main','s1',X'4268BC13217EE4EE96DBB5C70C68D0B3','{"step": 4}');
INSERT INTO "payloads" VALUES('main','s1',X'0B03F35196E934A081CBAFDD045EC15D','{"tenant": "main", "session": "s1", "run": "run_1", "step": 4, "index": 0, "tool_call_id": "call_4_0", "tool": "issue_refund", "tool_fingerprint": "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", "arguments": {"order_id": "run_1/4/0"}, "scope": ["payments:refund"], "environment": "", "salt": "00000000000000000000000000000000"}');
INSERT INTO "payloads" VALUES('main','s1',X'1BD7AF5A73041747CEB5CEA5DFAD8D7D','Denied by policy (never): Not this.
The call did not run.');
INSERT INTO "payloads" VALUES('main','s1',X'B1E00E0682321CBACBA800B2CB03E4DB','{"tenant": "main", "session": "s1", "run": "run_1", "step": 4, "index": 2, "tool_call_id": "call_4_2", "tool": "issue_refund", "tool_fingerprint": "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", "arguments": {"order_id": "run_1/4/2"}, "scope": ["payments:refund"], "environment": "", "salt": "00000000000000000000000000000000"}');
INSERT INTO "payloads" VALUES('main','s1',X'224E6FC573DAF914C492A8F6A7DFE383','Cancelled: bob: enough
The call did not run.');
INSERT INTO "payloads" VALUES('main','s2',X'650DDB3A5369F4483A66BBE970602D2B','Refund 7.');
INSERT INTO "payloads" VALUES('main','s2',X'9462BE42C34EF7E0B9D5A8E9F1C636CC','{}');
INSERT INTO "payloads" VALUES('main','s2',X'868D476380A281F4C472DBD3328F35FB','{"tenant": "main", "session": "s2", "run": "run_2", "step": 1, "index": 0, "tool_call_id": "call_1_0", "tool": "issue_refund", "tool_fingerprint": "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", "arguments": {"order_id": "run_2/1/0"}, "scope": ["payments:refund"], "environment": "", "salt": "00000000000000000000000000000000"}');
INSERT INTO "payloads" VALUES('main','s2',X'16FA45A5257A121E94D4F34A2D710728','{"effect": "", "reversible": false}');
INSERT INTO "payloads" VALUES('main','s2',X'A121B099C1624B908A8FE70D2927AFEC','{"tenant": "main", "session": "s2", "run": "run_2", "step": 1, "index": 1, "tool_call_id": "call_1_1", "tool": "issue_refund", "tool_fingerprint": "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", "arguments": {"order_id": "run_2/1/1"}, "scope": ["payments:refund"], "environment": "", "salt": "00000000000000000000000000000000"}');
INSERT INTO "payloads" VALUES('main','s2',X'5F14C7E618593DAA0EA098B9E442B97D','There is no such tool.');
INSERT INTO "payloads" VALUES('main','s2',X'A5E95BC9D1E501DA52054BB55D0D30E0','42');
INSERT INTO "payloads" VALUES('main','s2',X'84CF44FE3CCBB2F9EAC71A5E565541E4','{"step": 1}');
INSERT INTO "payloads" VALUES('main','s2',X'BF2ADB513761B1D61F13D242E4F35C26','{"tenant": "main", "session": "s2", "run": "child", "step": 1, "index": 0, "tool_call_id": "call_1_0", "tool": "issue_refund", "tool_fingerprint": "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", "arguments": {"order_id": "child/1/0"}, "scope": ["payments:refund"], "environment": "", "salt": "00000000000000000000000000000000"}');
INSERT INTO "payloads" VALUES('main','s2',X'CA51A3F1C65C8325B0CEBD7C3567F300','moves money');
INSERT INTO "payloads" VALUES('main','s3',X'43A2B9DDA1F1A6F8348DAA0A9DE5A9C8','Refund 7.');
INSERT INTO "payloads" VALUES('main','s3',X'0EC4BD583FFE64F6B5F462DD1505C3C8','{"step": 1}');
INSERT INTO "payloads" VALUES('main','s3',X'D951C357F8EF3BB67D12554160FEC00D','{"tenant": "main", "session": "s3", "run": "run_3", "step": 1, "index": 0, "tool_call_id": "call_1_0", "tool": "issue_refund", "tool_fingerprint": "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", "arguments": {"order_id": "run_3/1/0"}, "scope": ["payments:refund"], "environment": "", "salt": "00000000000000000000000000000000"}');
INSERT INTO "payloads" VALUES('main','s3',X'074A464FFD6BA58BAF0D609CBB771BD0','{"effect": "", "reversible": false}');
CREATE TABLE requests (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    session TEXT NOT NULL,
    pending INTEGER NOT NULL,
    deadline_at INTEGER NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT;
INSERT INTO "requests" VALUES('main','rq_vcq4apz75ikojejezm63','s1',0,1772370000000000,'{"id":"rq_vcq4apz75ikojejezm63","kind":"approval","at":["run_1",1,0],"digest":"a8a1c03f3fea14e49124cb3dbcb38aeb541e3910dfdf0f90795489a0692607d4","action_ref":"06bb256432c3ddf77c5026fe7c984003","tool":"issue_refund","surface":"payments","order":3,"version":1,"needs":{"approvers":["ann","bob"]},"requester":"rita","opened_at":1772366400000000,"deadline_at":1772370000000000,"rule":"refunds","policy_version":"p1","generation":0,"grounds_ref":"efdcc42e59c2235dfc2ea0421cc596fb","state":{"is":"Spent","votes":["ann"]}}');
INSERT INTO "requests" VALUES('main','rq_w3wpc7mvdkx6qxhmlspg','s1',0,1772370000000000,'{"id":"rq_w3wpc7mvdkx6qxhmlspg","kind":"approval","at":["run_1",2,0],"digest":"b6ecf17d951aafe85cec5c9e6b1db66c07ec711b93b0453f035095f8049bc871","action_ref":"71cdb211102082bc90c4921b2bbc6127","tool":"issue_refund","surface":"payments","order":11,"version":1,"needs":{"approvers":["ann","bob"]},"requester":"rita","opened_at":1772366400000000,"deadline_at":1772370000000000,"rule":"refunds","policy_version":"p1","generation":1,"grounds_ref":"efdcc42e59c2235dfc2ea0421cc596fb","state":{"is":"Superseded","by":"ann","successor":"rq_boj2cxz6claxqnyix6uu"}}');
INSERT INTO "requests" VALUES('main','rq_boj2cxz6claxqnyix6uu','s1',0,1772370000000000,'{"id":"rq_boj2cxz6claxqnyix6uu","kind":"approval","at":["run_1",2,0],"digest":"0b93a15f3e12c1783708bfa942c903e40e70336aed0f8fae22e8b8232621a22a","action_ref":"5bf7d3676db1bd93671250461e44d153","tool":"issue_refund","surface":"payments","order":11,"version":2,"needs":{"approvers":["ann","bob"]},"requester":"rita","opened_at":1772366400000000,"deadline_at":1772370000000000,"rule":"refunds","policy_version":"p1","generation":1,"replaces":"rq_w3wpc7mvdkx6qxhmlspg","grounds_ref":"efdcc42e59c2235dfc2ea0421cc596fb","changes_ref":"80c5c91374531b7343a92967fe6530c1","state":{"is":"Spent","votes":["ann"]}}');
INSERT INTO "requests" VALUES('main','rq_uy6knechka3mlay64hxm','s1',0,1772370000000000,'{"id":"rq_uy6knechka3mlay64hxm","kind":"approval","at":["run_1",3,0],"digest":"a63ca690475036c5831ee1eec6db45236664f6928f3e4efd7ad8713cc9a50ca9","action_ref":"d3768832ecfd844ead9c7abecb21faeb","tool":"issue_refund","surface":"payments","order":22,"version":1,"needs":{"approvers":["ann","bob"]},"requester":"rita","opened_at":1772366400000000,"deadline_at":1772370000000000,"rule":"refunds","policy_version":"p1","generation":2,"grounds_ref":"efdcc42e59c2235dfc2ea0421cc596fb","state":{"is":"Rejected","by":"ann","reason_ref":"991d7eb2c0750c76baf0195ea197b609"}}');
INSERT INTO "requests" VALUES('main','rq_bay7yr2k5h3dfznzarte','s1',0,1772370000000000,'{"id":"rq_bay7yr2k5h3dfznzarte","kind":"approval","at":["run_1",4,2],"digest":"0831fc474ae9f632e5b9046640001ab48ae0e68a1d0a4500235ebc1365c99c86","action_ref":"b1e00e0682321cbacba800b2cb03e4db","tool":"issue_refund","surface":"payments","order":31,"version":1,"needs":{"approvers":["ann","bob"]},"requester":"rita","opened_at":1772366400000000,"deadline_at":1772370000000000,"rule":"refunds","policy_version":"p1","generation":2,"grounds_ref":"efdcc42e59c2235dfc2ea0421cc596fb","state":{"is":"Cancelled","cause":"bob: enough"}}');
INSERT INTO "requests" VALUES('main','rq_bl3m4x6dackwhwyyoh7a','s2',1,1772370000000000,'{"id":"rq_bl3m4x6dackwhwyyoh7a","kind":"approval","at":["child",1,0],"digest":"0af6ce5fc3009563db1871fe0c29f8009851d71f54e13610ff165d96bdd8ac2e","action_ref":"bf2adb513761b1d61f13d242e4f35c26","tool":"issue_refund","surface":"payments","order":12,"version":1,"needs":{"approvers":["ann","bob"]},"requester":"rita","opened_at":1772366400000000,"deadline_at":1772370000000000,"rule":"refunds","policy_version":"p1","generation":0,"grounds_ref":"ca51a3f1c65c8325b0cebd7c3567f300","state":{"is":"Open"}}');
CREATE TABLE runs (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    session TEXT NOT NULL,
    active INTEGER NOT NULL,
    wake_at INTEGER,
    value TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT;
INSERT INTO "runs" VALUES('main','run_1','s1',0,NULL,'{"id":"run_1","agent":"clerk","requester":"rita","kind":"driven","max_steps":50,"started_at":1772366400000000,"order":0,"message_ref":"2059f0815e200b0c1c57bc5e3f53f76e","step":4,"fence":4,"stopping":"cancelled","state":{"is":"RunOver","stop":"cancelled"}}');
INSERT INTO "runs" VALUES('main','run_2','s2',1,NULL,'{"id":"run_2","agent":"clerk","requester":"rita","kind":"driven","max_steps":50,"started_at":1772366400000000,"order":0,"message_ref":"650ddb3a5369f4483a66bbe970602d2b","step":1,"fence":1,"state":{"is":"Resting"}}');
INSERT INTO "runs" VALUES('main','child','s2',1,1772370000000000,'{"id":"child","agent":"clerk","requester":"rita","kind":"driven","max_steps":50,"started_at":1772366400000000,"order":7,"message_ref":"650ddb3a5369f4483a66bbe970602d2b","step":1,"fence":1,"parent":["run_2",1,0],"state":{"is":"Resting"}}');
INSERT INTO "runs" VALUES('main','run_3','s3',1,1772366400000000,'{"id":"run_3","agent":"clerk","requester":"rita","kind":"hosted","max_steps":50,"started_at":1772366400000000,"order":0,"message_ref":"43a2b9dda1f1a6f8348daa0a9de5a9c8","step":1,"state":{"is":"Resting"}}');
CREATE TABLE sessions (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    salt TEXT NOT NULL,
    surfaces TEXT NOT NULL,
    head BLOB NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
INSERT INTO "sessions" VALUES('main','s1',39,'29d2fe2e58b9def6e3ae5efb2a787c17','{"payments":2}',X'5E6C3BCE46AB873D62962DC2946ADBE9B6042417B1F3D737FBB5CDBA3EB9E299');
INSERT INTO "sessions" VALUES('main','s2',15,'f5fef026543f24cc02bcf33a5284db86','{}',X'373D5F4B49C19C208D76F69994E9FC5AE59F2F31EE50D718081935F207E2C917');
INSERT INTO "sessions" VALUES('main','s3',3,'28fef43059d2c68945437f9a21bdbe4f','{}',X'540D0F3C1B1B2D0084074D6D3FACE3D3252ACFD01DC6B75C1FC3E7E831195CF7');
CREATE TABLE transcript (
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    run TEXT NOT NULL,
    step INTEGER NOT NULL,
    place INTEGER NOT NULL,
    kind TEXT NOT NULL,
    ref BLOB NOT NULL,
    PRIMARY KEY (tenant, session, run, step, place)
) STRICT, WITHOUT ROWID;
INSERT INTO "transcript" VALUES('main','s1','run_1',0,-1,'message',X'2059F0815E200B0C1C57BC5E3F53F76E');
INSERT INTO "transcript" VALUES('main','s1','run_1',1,-1,'turn',X'D83703E3B054D81987D3E5068AA546C0');
INSERT INTO "transcript" VALUES('main','s1','run_1',1,0,'result',X'EDCBF008C874111CEA92F332B53B86DA');
INSERT INTO "transcript" VALUES('main','s1','run_1',2,-1,'turn',X'6191E7514B8A85D62B042CD1312F771C');
INSERT INTO "transcript" VALUES('main','s1','run_1',2,0,'result',X'754BC4C201C51FCE02F54007165B8E45');
INSERT INTO "transcript" VALUES('main','s1','run_1',3,-1,'turn',X'DAEC80FC76AE37D8251C359BB3E66870');
INSERT INTO "transcript" VALUES('main','s1','run_1',3,0,'result',X'73B0601AB96A4982E57CB3F45CA3F9C4');
INSERT INTO "transcript" VALUES('main','s1','run_1',4,-1,'turn',X'4268BC13217EE4EE96DBB5C70C68D0B3');
INSERT INTO "transcript" VALUES('main','s1','run_1',4,0,'result',X'224E6FC573DAF914C492A8F6A7DFE383');
INSERT INTO "transcript" VALUES('main','s1','run_1',4,1,'result',X'1BD7AF5A73041747CEB5CEA5DFAD8D7D');
INSERT INTO "transcript" VALUES('main','s1','run_1',4,2,'result',X'224E6FC573DAF914C492A8F6A7DFE383');
INSERT INTO "transcript" VALUES('main','s2','child',0,-1,'message',X'650DDB3A5369F4483A66BBE970602D2B');
INSERT INTO "transcript" VALUES('main','s2','child',1,-1,'turn',X'84CF44FE3CCBB2F9EAC71A5E565541E4');
INSERT INTO "transcript" VALUES('main','s2','run_2',0,-1,'message',X'650DDB3A5369F4483A66BBE970602D2B');
INSERT INTO "transcript" VALUES('main','s2','run_2',1,-1,'turn',X'9462BE42C34EF7E0B9D5A8E9F1C636CC');
INSERT INTO "transcript" VALUES('main','s2','run_2',1,1,'result',X'A5E95BC9D1E501DA52054BB55D0D30E0');
INSERT INTO "transcript" VALUES('main','s2','run_2',1,2,'result',X'5F14C7E618593DAA0EA098B9E442B97D');
INSERT INTO "transcript" VALUES('main','s3','run_3',0,-1,'message',X'43A2B9DDA1F1A6F8348DAA0A9DE5A9C8');
INSERT INTO "transcript" VALUES('main','s3','run_3',1,-1,'turn',X'0EC4BD583FFE64F6B5F462DD1505C3C8');
CREATE INDEX runs_of_session ON runs (tenant, session);
CREATE INDEX runs_active ON runs (tenant, session) WHERE active = 1;
CREATE INDEX runs_to_wake ON runs (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX calls_open ON calls (tenant, session) WHERE open = 1;
CREATE INDEX requests_of_session ON requests (tenant, session, pending);
CREATE INDEX requests_pending ON requests (tenant, deadline_at) WHERE pending = 1;
CREATE UNIQUE INDEX events_of_command ON events (tenant, session, command_id)
    WHERE command_id <> '';
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('outbox',11);
COMMIT;
